"""`python -m benchmarks [chapter]`: run the races of all chapters, or of one, and print ratios."""

import importlib
import pkgutil
import sys

import benchmarks
from benchmarks.race import Race


def main():
    chapters = [
        one.name
        for one in pkgutil.iter_modules(benchmarks.__path__)
        if one.name not in ("__main__", "race")
    ]
    chosen = sys.argv[1:] or chapters
    unknown = [name for name in chosen if name not in chapters]
    if unknown:
        sys.exit(f"benchmarks: there is no chapter {unknown[0]!r}. There is {', '.join(chapters)}.")
    print("time of ours / time of theirs; below 1 we are faster")
    for chapter in chosen:
        module = importlib.import_module(f"benchmarks.{chapter}")
        for race in vars(module).values():
            if isinstance(race, Race):
                print(race.run(), flush=True)


main()
