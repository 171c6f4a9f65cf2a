"""How far estimates of input tokens are off, for each upstream model."""

from django.db import models
from django.db.models.functions import Now


class InputCalibration(models.Model):
    """What the workers have measured; each writes what it knows, and the last one's word counts."""

    upstream_id = models.BigIntegerField()
    upstream_model = models.CharField(max_length=256)
    #: Input tokens by the upstream's count to those by our estimate, on average.
    ratio = models.FloatField()
    #: How far single answers lie from that, on average.
    deviation = models.FloatField()
    samples = models.BigIntegerField()
    measured_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["upstream_id", "upstream_model"], name="usage_calibration_once")]

    def __str__(self) -> str:
        return f"{self.upstream_model} at upstream {self.upstream_id}: {self.ratio:.2f}"
