// Package declaration decides what may be called: it reads what executors announce and what a run
// declares, freezes the two into a context at the run's acceptance, shows a model what is in it, and
// admits the model's calls against it. It looks nothing up; what the database knows arrives as a
// Snapshot.
package declaration
