// Package client calls a controller's HTTP API for people at a command line.
//
// It speaks the messages of package view over TLS with a client certificate,
// or over a unix socket, whose mode says who may. What goes wrong is turned
// into an error that says what to do about it: nobody should have to know what
// "bad certificate" means. A refused drill is an error of its own (Refused),
// with the guards' answers.
package client
