// Package pki is the small CA behind the control endpoint and the controller's
// API: enough for a fleet that has none of its own, and for tests. Who has one
// issues the same certificates with it (package mtls says which names and usages
// they need).
//
// Three kinds of certificates, never two in one: a DNS server's, the API's, a
// caller's. Keys are ECDSA P-256. Private keys are files of mode 0600; every
// file is written under another name, synced and renamed. A CA is never
// overwritten: everything that it issued would be worth nothing.
//
// There is no revocation: certificates are short-lived, names are taken off the
// list of callers at once, and a CA is changed by putting both into the CA file
// for a while.
package pki
