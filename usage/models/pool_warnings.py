"""Which troubles of credentials an administrator was told of."""

from django.db import models
from django.db.models.functions import Now


class PoolWarning(models.Model):
    """The last warning about a credential; whoever changes the row sends it, so that of several workers one does."""

    credential_id = models.BigIntegerField(primary_key=True)
    #: As in keys.standing, or "undecryptable".
    cause = models.CharField(max_length=32)
    warned_at = models.DateTimeField(db_default=Now())
    #: The credential serves again; if it fails anew, that is news.
    is_over = models.BooleanField(default=False, db_default=False)

    def __str__(self) -> str:
        return f"credential {self.credential_id}: {self.cause}"
