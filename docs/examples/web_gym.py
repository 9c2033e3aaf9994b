"""A web gym in one file: an app that keeps its state in localStorage, its task, its grading."""

import json
import sys
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI, Form, HTTPException, UploadFile
from fastapi.responses import HTMLResponse

PAGE = """<!doctype html>
<title>Lamp</title>
<button style="margin: 100px; font-size: 40px">Switch</button>
<p></p>
<script>
  const show = () => {
    document.querySelector("p").textContent = `The lamp is ${localStorage.lamp ?? "off"}.`;
  };
  document.querySelector("button").onclick = () => {
    localStorage.lamp = localStorage.lamp === "on" ? "off" : "on";
    show();
  };
  show();
</script>"""

TASKS: dict[str, Any] = {
    "LAMP-1": {
        "prompt": "Switch the lamp on.",
        "start_url": "/",
        "viewport_size": {"width": 800, "height": 600},
        "category": "click",
    }
}

app = FastAPI()


@app.get("/", response_class=HTMLResponse)
def lamp() -> str:
    """Serve the app."""
    return PAGE


@app.post("/api/v1/get_expected_state")
def tasks() -> dict[str, Any]:
    """List the tasks, but not what solves them."""
    return {"verifiers": TASKS}


@app.post("/api/v1/get_actual_state")
def grade(
    task_id: Annotated[str, Form(alias="taskId")],
    dump: Annotated[UploadFile, Form(alias="localStorageDump")],
) -> dict[str, Any]:
    """Grade what was left in localStorage: `{key: text}`, of the origin the task started at."""
    if task_id not in TASKS:
        raise HTTPException(404, f"there is no task {task_id!r}")
    state = json.load(dump.file).get("lamp")
    result = "pass" if state == "on" else "fail"
    return {
        "assertions": [
            {"title": "The lamp is on", "result": result, "expected": "on", "actual": state}
        ]
    }


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]))
