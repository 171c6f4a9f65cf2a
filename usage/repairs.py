"""What was wrong with tool calls that were found in text, counted from the records of one upstream model."""

from collections import Counter

from keys.repairs import ANSWERS_MAX, Repairs
from translator.core.emulation.kinds import EMULATION, REPAIRS
from usage.models import UsageRecord
from usage.pages.notes import in_words


def count_repairs(upstream_id: int, model_name: str) -> Repairs:
    """Count among the model's last records; the index by model and id serves it."""
    records = UsageRecord.objects.filter(upstream_model=model_name, upstream_id=upstream_id).order_by("-id")
    noted = [set(notes) for notes in records.values_list("notes", flat=True)[:ANSWERS_MAX]]
    emulated = [notes.intersection(REPAIRS) for notes in noted if EMULATION in notes]
    kinds = Counter(note for notes in emulated for note in notes)
    return Repairs(
        answers=len(emulated),
        repaired=sum(map(bool, emulated)),
        by_kind={in_words(note): count for note, count in kinds.most_common()},
    )
