"""A whole program, statement by statement, with stubs for the objects of frameworks."""
