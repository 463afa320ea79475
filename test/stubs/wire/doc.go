// Package wire sees what really went over a host's network: every DNS query and
// answer with the kernel's own time stamp. It is what verdicts are held to, so
// it knows nothing of how servers count.
package wire
