"""Puts the booking tool's questions to whoever sits at this terminal. Run: python examples/guest.py [RESTAURANT]"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import mcp_types as types
from mcp import Client

URL = "http://127.0.0.1:8000/mcp"


async def answer(_: Any, question: types.ElicitRequestParams) -> types.ElicitResult:
    """Ask for each field of the question; an empty line takes its default, or declines where there is none."""
    print(f"\n{question.message}")
    content: dict[str, Any] = {}
    fields = question.requested_schema["properties"] if isinstance(question, types.ElicitRequestFormParams) else {}
    for name, field in fields.items():
        choices = f" ({' | '.join(field['enum'])})" if "enum" in field else ""
        default = f" [{field['default']}]" if "default" in field else ""
        said = await asyncio.to_thread(input, f"  {field.get('description', name)}{choices}{default} ")
        if not said and "default" not in field:
            return types.ElicitResult(action="decline")
        content[name] = _typed(said, field)
    return types.ElicitResult(action="accept", content=content)


def _typed(said: str, field: dict[str, Any]) -> Any:
    if not said:
        return field["default"]
    return json.loads(said) if field.get("type") in ("integer", "number", "boolean") else said


async def main() -> None:
    """One call, all its rounds."""
    restaurant = sys.argv[1] if len(sys.argv) > 1 else "Luna"
    async with Client(URL, elicitation_callback=answer) as client:
        result = await client.call_tool("book", {"restaurant": restaurant})
    print("\n" + "\n".join(block.text for block in result.content if isinstance(block, types.TextContent)))


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("\nNothing was booked.")
