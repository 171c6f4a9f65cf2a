"""Clients that are installed for a test, each in an environment of its own."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CLIENTS = Path(__file__).parent / "clients"
OLD_PYTHON_SDK = "anthropic==0.75.0"
TYPESCRIPT_SDK = "@anthropic-ai/sdk@1.14.0"
AI_SDK = ("ai@6.0.326", "@ai-sdk/anthropic@3.0.140", "zod@4")


def run(*words: str, cwd: Path | None = None, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program outside of the tests' own environment, with `given` as its input."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("VIRTUAL_ENV", "PYTHON"))}
    return subprocess.run(
        words, cwd=cwd, env=environment, input=given, capture_output=True, text=True, timeout=240, check=False
    )


def install(*words: str, cwd: Path | None = None) -> None:
    """Install a client, or skip the test where that can't be had."""
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    try:
        done = run(*words, cwd=cwd)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{words[-1]} can't be installed in time")
    if done.returncode != 0:
        pytest.skip(f"{words[-1]} can't be installed: {done.stderr.strip()[-300:]}")


def python_with(*packages: str, module: str) -> list[str]:
    """Return the words that run a Python which has the packages, and which can import `module`."""
    words = ["uv", "run", "--no-project", "--isolated", *(word for each in packages for word in ("--with", each))]
    words.append("python")
    install(*words, "-c", f"import {module}")
    return words


def node_with(folder: Path, script: str, *packages: str) -> list[str]:
    """Put one of the scripts of `clients` beside its packages, and return the words that run it in there."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    shutil.copy(CLIENTS / script, folder)
    install("npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), *packages)
    return ["node", script]
