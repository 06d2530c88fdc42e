"""`new`: a page to write, made of the skeleton."""

from principia.lab.cli.terminal import command_name, say

__all__ = ["new"]

ROOMS = ("story, formula, components", "what is true of them", "what they reach on data")
NEXT = (
    ("{principia} check {key}", "it is a page already"),
    ("{principia} serve", "the same in a browser, with its knobs as sliders"),
    ("make stubs", "after its components have their names"),
    ("pytest tests/contract -k {name}", "what every page must fulfill"),
)


def new(key: str) -> None:
    """Make a page: three files to write your idea into, named in the story of their chapter.

    Args:
        key: CHAPTER/PAGE, such as connectionism/my_idea.
    """
    from principia.lab.course.new_page import new_page

    page = new_page(key)
    say(f"{page.key} is a page now:", style="bold")
    for file, about in zip(page.files, ROOMS, strict=True):
        say(f"  {file}")
        say(f"      {about}", style="dim")
    say(f"  {page.path.parent / '__init__.py'}")
    say("      the chapter's story, which names it: move the name to its place", style="dim")
    say("Write your idea over the running average that they hold. Then:")
    for command, meaning in NEXT:
        say(f"  {command.format(principia=command_name(), key=page.key, name=page.name)}")
        say(f"      {meaning}", style="dim")
