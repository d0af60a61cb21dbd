"""The pages for Python: their programs run as they stand there, in their order, against one server.

A block in python whose first line is a comment with a name is that file. Blocks in sh run where they start with python, a worker until
the end of the page; a block in text has lines that the block before prints.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import subprocess
import sys
import time

import httpx
import kinesin
import pytest
from conftest import PROGRAM

ROOT = pathlib.Path(__file__).parents[3]
BLOCKS = re.compile(r"^```(python|sh|text)\n(.*?)^```$", re.M | re.S)


@pytest.mark.parametrize("page", ["start/python", "how-to/test-in-virtual-time"])
def test_page(page, own, tmp_path):
    text = (ROOT / "docs" / f"{page}.md").read_text().replace("http://127.0.0.1:7070", own.url)
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["kinesin._pytest"]\n')
    path = {"PYTHONPATH": os.path.dirname(os.path.dirname(kinesin.__file__)), "PYTHONDONTWRITEBYTECODE": "1", "KINESIN_BIN": PROGRAM}
    compared, printed, ours = 0, "", False
    with contextlib.ExitStack() as end:
        for kind, block in BLOCKS.findall(text):
            if kind == "python" and (named := re.match(r"# (\w+\.py)\n", block)):
                (tmp_path / named[1]).write_text(block)
            elif kind == "text" and ours:
                for line in block.splitlines():
                    shown, compared = re.escape(line).replace("…", ".*"), compared + 1
                    assert re.search(f"^{shown}$", printed, re.M), f"{page} shows {line!r}, and this was printed: {printed!r}"
            elif kind == "sh" and (ours := block.startswith("python ")):
                arguments = [sys.executable, *block.split()[1:]]
                program = subprocess.Popen(arguments, cwd=tmp_path, env={**os.environ, **path}, stdout=subprocess.PIPE, text=True)
                if "worker.py" in arguments:
                    end.callback(lambda program=program: stop(program))
                    until_created(own.url)
                    continue
                printed, _ = program.communicate(timeout=120)
                assert program.returncode == 0, printed
    assert compared


def until_created(url):
    """Waits until a worker has created its lambda."""
    end = time.monotonic() + 60
    while not httpx.get(f"{url}/v1/lambdas").json()["lambdas"]:
        assert time.monotonic() < end
        time.sleep(0.05)


def stop(worker):
    worker.terminate()
    worker.communicate(timeout=120)
    assert worker.returncode == 0
