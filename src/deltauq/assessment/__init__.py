"""Whether anchoring helps a user's own model on a user's own table, by cross-validation."""

from deltauq.assessment.measures import Measures
from deltauq.assessment.result import Assessment
from deltauq.assessment.run import assess
from deltauq.assessment.verdict import Advice, Verdict, decide

__all__ = ["Advice", "Assessment", "Measures", "Verdict", "assess", "decide"]
