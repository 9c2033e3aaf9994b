"""Serves the apps at the address that `tasks.jsonl` names, for a person or a model to use."""

from urllib.parse import urlsplit

import uvicorn

from tests.apps.packages import fetch, load_packages
from tests.apps.runner import ROW_ORIGIN
from tests.apps.site import create_apps_site

if __name__ == "__main__":
    fetch(load_packages())
    address = urlsplit(ROW_ORIGIN)
    uvicorn.run(create_apps_site(), host=address.hostname or "", port=address.port or 0)
