"""What `deltauq demo` computes and shows."""

from deltauq.demo.run import STEPS, Demo, run_demo

__all__ = ["STEPS", "Demo", "run_demo"]
