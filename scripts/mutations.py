"""Damage valid replies of each open-weight family and look for exceptions and made-up actions.

`make mutations`; what was found is printed, and in results/mutations.json.
"""

import argparse
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from responses_api_agents.browser_agent.policies import policies
from responses_api_agents.browser_agent.tests.mutated_replies import (
    check,
    made_up,
    mutated_replies,
    outcome,
)

RESULT = Path("results/mutations.json")


def _try_family(policy: str, count: int, seed: int) -> dict[str, Any]:
    """Return how many replies came to actions or an answer, and the faults."""
    acted, faults = 0, []
    started = time.monotonic()
    for text in itertools.islice(mutated_replies(policy, seed), count):
        try:
            parsed = outcome(policy, text)
            check(parsed)
        except Exception as error:
            faults.append({"reply": text[:1000], "error": repr(error)})
            continue
        acted += bool(parsed.actions or parsed.answer is not None)
        if wrong := made_up(policy, text, parsed):
            faults.append({"reply": text[:1000], "made_up": wrong})
    seconds = round(time.monotonic() - started, 1)
    return {"replies": count, "acted": acted, "seconds": seconds, "faults": faults}


def main() -> int:
    """Return 0 if no reply raised, and none came to what it does not say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="replies of each family")
    parser.add_argument("--seed", type=int, default=1, help="the same one damages them alike")
    args = parser.parse_args()
    found = {}
    for policy in policies():
        found[policy] = _try_family(policy, args.count, args.seed)
        family = found[policy]
        print(f"{policy}: {args.count} replies, {family['acted']} of them to actions or an answer,")
        print(f"  in {family['seconds']:.0f} s; {len(family['faults'])} faults", flush=True)
        for fault in family["faults"][:3]:
            print(f"  {fault}")
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps({"seed": args.seed, "families": found}, indent=2) + "\n")
    return 1 if any(family["faults"] for family in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
