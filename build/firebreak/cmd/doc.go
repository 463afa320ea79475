// Package cmd is the command line of firebreak: one file a command, on cobra.
//
// Commands ask the controller's API (package client) and show what it says
// (package view); nothing is decided here but how to ask and how to show.
// Reports, plans and lists go to standard output, everything else (the live
// view, questions, hints) to standard error, so that a pipe gets what it wants.
//
// Every command ends with one of the exit codes of exit.go; scripts live by
// them, so they are documented in --help and held by tests.
package cmd
