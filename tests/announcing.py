"""Chapters of third parties, made for a test."""

import os

from principia.lab.course import catalog


def announced(folder, monkeypatch, name, claims):
    """Install a chapter of one page with these claims, where workers find it, too."""
    chapter = folder / name
    (chapter / "claims").mkdir(parents=True)
    for file in (chapter / "__init__.py", chapter / "claims/__init__.py", chapter / "idea.py"):
        file.write_text('"""A chapter: for a test."""\n')
    (chapter / "claims/idea.py").write_text(claims)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[principia.chapters]\n{name} = {name}\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    monkeypatch.setattr(catalog, "chapters", catalog.chapters.__wrapped__)
    return catalog.page(f"{name}/idea")
