"""The small build that tests of language zoos vary."""

from wsl.zoo.language import CharRecurrents, LanguageRecipe, Range, build_language_zoo

RECIPE = LanguageRecipe(
    learning_rate=Range(1e-3, 1e-1, log=True),
    weight_decay=Range(1e-6, 1e-3, log=True),
    dropout=[0.0, 0.2],
    optimizer=["sgd", "momentum", "adam", "rmsprop"],
    initialisation=["default", "orthogonal"],
    initial_scale=Range(0.5, 2.0),
    train_fraction=Range(0.05, 1.0, log=True),
    batch_size=[4, 8],
    steps=[5, 8],
    checkpoints=[0, 3],
)
RECURRENTS = CharRecurrents(cell=["lstm", "gru"], hidden=6, embedding=4)


def build(out, **changes):
    given = {"networks": 12, "architecture": RECURRENTS, "recipe": RECIPE, "length": 10, "limit": 8000}
    return build_language_zoo(out, **{**given, "progress": False, **changes})
