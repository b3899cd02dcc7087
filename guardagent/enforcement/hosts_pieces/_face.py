"""The parts that the adapters of agent frameworks share. None of them knows a framework."""
