"""The verdict on a user's own model: plain, anchored, cheap alternatives and a trivial baseline on the user's table."""

from deltauq.assessment.measures import Measures
from deltauq.assessment.result import Assessment
from deltauq.assessment.run import assess
from deltauq.assessment.verdict import Advice, Verdict, decide

__all__ = ["Advice", "Assessment", "Measures", "Verdict", "assess", "decide"]
