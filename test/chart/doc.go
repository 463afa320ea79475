// Package chart tests charts/firebreak with the helm that people run: what it
// renders is compared whole, what values may not be is refused in words, each
// Corefile that it renders starts on our binary in a host of its own, all objects
// are taken by a real API server, and a real DaemonSet of them is installed and
// rolled on three nodes.
package chart
