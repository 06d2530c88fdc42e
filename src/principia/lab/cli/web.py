"""`serve`, `site`: the course in a browser."""

import contextlib
from pathlib import Path
from typing import Annotated

from principia.lab.cli.terminal import counted, fancy, progress, say
from principia.lab.cli.train import RUNS
from principia.lab.course import catalog
from principia.lab.params import Jobs, Range, UsageError, shown

__all__ = ["serve", "site"]


def serve(
    *,
    host: str = "127.0.0.1",
    port: Annotated[int, Range(0, 65535)] = 8000,
    allow_name: tuple[str, ...] = (),
    runs_dir: str = RUNS,
    data_dir: str | None = None,
    no_browser: bool = False,
    allow_root: bool = False,
) -> int:
    """Open the course in a browser: every theorem with sliders, experiments, a playground.

    Only this machine can reach it, unless --host says otherwise. Whoever comes in needs the token
    that the printed address contains; PRINCIPIA_TOKEN sets it.

    Args:
        host: Address to listen at; 0.0.0.0 is every address of this machine.
        port: Port to listen at; 0 takes any free one.
        allow_name: Further name under which others reach this machine; may be repeated.
        runs_dir: Folder of the run folders.
        data_dir: Folder with the data sets; searched before PRINCIPIA_DATA.
        no_browser: Print the address and open nothing.
        allow_root: Serve as root, as in a container.
    """
    if data_dir is not None and not Path(data_dir).is_dir():
        raise UsageError(f"serve: folder {shown(data_dir)} does not exist. Name the data folder.")
    from principia.lab.web import server

    with contextlib.suppress(KeyboardInterrupt):  # the usual way to end it
        server.serve(
            host=host, port=port, names=allow_name, runs_dir=Path(runs_dir), data_dir=data_dir,
            browser=fancy() and not no_browser, allow_root=allow_root, say=say,
        )
    say("Stopped.")
    return 0


def site(out: str, *, remembered: bool = False, jobs: Jobs | None = None) -> int:
    """Write the whole course as static HTML, with every claim measured now; no server needed.

    Exit code 0 if every claim holds with its control refuted, 1 if not.

    Args:
        out: Folder to write: a new one, or one of an earlier site, which is replaced.
        remembered: Take evidence that was measured before and still stands, and measure the rest.
        jobs: Number of processes; by default one a core.
    """
    from principia.lab.evidence.checking import check_all
    from principia.lab.web.pages.rendering import evidence_now
    from principia.lab.web.pages.site import need_site_folder, write_site

    folder = Path(out).absolute()
    need_site_folder(folder)
    before = evidence_now() if remembered else {}
    known = {key: kept.finding for key, kept in before.items() if not kept.stale}
    everything = catalog.select([chapter.name for chapter in catalog.chapters()], "site")
    missing = [(page, name) for page, name in everything if f"{page.key}:{name}" not in known]
    with progress(len(missing), "checking") as advance:
        found = check_all(missing, jobs=jobs, done=lambda key: advance(key)) if missing else []
    known |= {finding.key: finding for finding in found}
    written = write_site(folder, known)
    failed = [key for key, finding in known.items() if not finding.passed]
    for key in failed:
        say(f"{key} does not pass.", style="bold red")
    passed = f"{len(known) - len(failed)} of {len(known)} claims"
    say(f"{passed} hold with their controls refuted.", style="bold red" if failed else "bold green")
    say(f"{counted(written, 'file')}: {out}. Open {Path(out) / 'index.html'}.")
    return 1 if failed else 0
