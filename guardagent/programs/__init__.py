"""Guard programs: the code that a request becomes, and how it is made and run (GuardAgent, Sections 3.2, 3.3)."""
