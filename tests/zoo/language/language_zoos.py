"""The small build that tests of language zoos vary."""

from population_suite import ENTRIES

from wsl.zoo.language import CharRecurrents, LanguageRecipe, build_language_zoo

RECIPE = LanguageRecipe(
    **ENTRIES,
    batch_size=[4, 8],
    steps=[5, 8],
    checkpoints=[0, 3],
)
RECURRENTS = CharRecurrents(cell=["lstm", "gru"], hidden=6, embedding=4)


def build(out, **changes):
    given = {"networks": 12, "architecture": RECURRENTS, "recipe": RECIPE, "length": 10, "limit": 8000}
    return build_language_zoo(out, **{**given, "progress": False, **changes})
