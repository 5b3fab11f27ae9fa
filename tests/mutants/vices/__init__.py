"""The named mutants, a module a section; importing a module registers its mutants."""
