"""Whether anchoring helps a model on a table, by cross-validation."""

from deltauq.assessment.cross_validation import assess
from deltauq.assessment.fold_metrics import FoldMetrics
from deltauq.assessment.recommendation import Advice, Recommendation, decide
from deltauq.assessment.result import Assessment

__all__ = ["Advice", "Assessment", "FoldMetrics", "Recommendation", "assess", "decide"]
