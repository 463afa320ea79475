// Package standalone is the controller without Kubernetes: a fleet file, a state
// folder, an HTTP API.
//
// It is the shell around controller/run. Each run has one goroutine (drive) that
// four times a second collects what was seen since, lets run.Step decide, writes
// the run down and only then does what was decided; reads and calls go on beside
// it, so that a server that does not answer holds nothing up. Whatever is not
// yet put back after a crash stands in DIR/runs, and the next process goes on
// with it. A run that cannot be written down changes nothing.
//
// Of the fleet only one drill is on at a time. Starting one, by a caller of the
// API or by a schedule, goes through the one door in start.go, where the guards
// are asked. Every start, stop and refusal is an audit line.
package standalone
