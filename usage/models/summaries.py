"""Summaries of members' conversations, sealed."""

from django.conf import settings
from django.db import models
from django.db.models.functions import Now


class ConversationSummary(models.Model):
    """What a model wrote of the first messages of a conversation, for its next turns.

    It is a member's own words in short: sealed like a credential, gone with the member, and deleted a week after its last use.
    """

    #: Drawn at random before the row is written, as the sealed text is bound to it.
    id = models.BigIntegerField(primary_key=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    #: A digest of member, session, alias and opening.
    conversation = models.CharField(max_length=64)
    #: How many messages it covers, and a digest of all of them.
    covered = models.PositiveIntegerField()
    fingerprint = models.CharField(max_length=64)
    sealed_text = models.TextField()
    #: The alias that wrote it, and the request that it did so in.
    written_by = models.CharField(max_length=256)
    request_id = models.CharField(max_length=64, db_index=True)
    made_at = models.DateTimeField(db_default=Now())
    used_at = models.DateTimeField(db_default=Now(), db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["conversation", "covered", "fingerprint"], name="usage_summary_once")
        ]

    def __str__(self) -> str:
        return f"summary {self.pk} of {self.covered} messages"
