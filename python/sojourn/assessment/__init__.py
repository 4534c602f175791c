"""The main job: from an access log to a capacity answer.

`assess` goes through the stages in order and keeps what each one gave in the run folder at once, so that whatever
ends it early (Ctrl-C, a server that dies) leaves a run that says how far it came.
"""

from sojourn.assessment.effort import EFFORTS, Effort, EffortName
from sojourn.assessment.pipeline import assess
from sojourn.assessment.request import Request

__all__ = ["EFFORTS", "Effort", "EffortName", "Request", "assess"]
