from .experiments import Budget as Budget
from .experiments import Experiment as Experiment
from .experiments import Outcome as Outcome
from .experiments import Run as Run
from .experiments import at_least_goal as at_least_goal
from .experiments import at_most_goal as at_most_goal
from .experiments import experiment as experiment
