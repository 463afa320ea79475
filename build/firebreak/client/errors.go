package client

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"

	"firebreakdns.io/firebreak/controller/run"
	"firebreakdns.io/firebreak/controller/view"
	"firebreakdns.io/firebreak/plugin/pkg/protocol"
	"firebreakdns.io/firebreak/plugin/pkg/protocol/mtls"
)

// Refused is a drill that a guard would not let start. Nothing was changed.
type Refused struct {
	Reason run.Reason
	Checks []run.Check // those that refused
}

func (r *Refused) Error() string {
	var all []string
	for _, c := range r.Checks {
		if !c.Passed {
			all = append(all, string(c.Reason)+": "+c.Message)
		}
	}
	if len(all) == 0 {
		all = []string{string(r.Reason)}
	}
	return "refused: " + strings.Join(all, "; ")
}

// Answer is any other problem that the controller answered with.
type Answer struct {
	protocol.Problem
	hint string
}

func (a *Answer) Error() string {
	text := a.Detail
	if text == "" {
		text = a.Title
	}
	if a.Field != "" {
		text = a.Field + ": " + text
	}
	if a.hint != "" {
		text += ". " + a.hint
	}
	return text
}

// Unwrap lets errors.As find the problem.
func (a *Answer) Unwrap() error { return &a.Problem }

// Temporary reports whether the same call may work in a moment: the
// controller is away, or busy. What it answered and meant is not temporary.
func Temporary(err error) bool {
	var a *Answer
	if errors.As(err, &a) {
		return a.Status >= 500 || a.Status == http.StatusTooManyRequests
	}
	var refused *Refused
	var untrusted *untrusted
	return !errors.As(err, &refused) && !errors.As(err, &untrusted) && !errors.Is(err, context.Canceled)
}

// untrusted is a certificate that one of the two sides did not take: asking
// again changes nothing.
type untrusted struct{ error }

func (u *untrusted) Unwrap() error { return u.error }

// problem turns an answer that is no success into an error.
func (c *Client) problem(res *http.Response, data []byte) error {
	var p view.RefusedProblem
	if err := json.Unmarshal(data, &p); err != nil || p.Type == "" {
		return fmt.Errorf("%s answered %s, and not as a Firebreak controller would: is --controller right?", c.where, res.Status)
	}
	if p.Problem.Reason() == view.ReasonDrillRefused {
		return &Refused{Reason: p.Reason, Checks: p.Checks}
	}
	a := &Answer{Problem: p.Problem}
	if res.StatusCode == http.StatusForbidden {
		a.hint = "Put the name into the role that may (api.roles in the fleet file: viewer reads, assistant plans, operator starts and stops)"
		if who := c.caller(); who != "" {
			a.hint += ", or use another certificate: this one is " + who + "'s"
		}
	}
	return a
}

// caller is the name in our certificate.
func (c *Client) caller() string {
	if c.keys == nil {
		return ""
	}
	name, err := mtls.ClientName(c.keys.Keys().Leaf)
	if err != nil {
		return ""
	}
	return name
}

// unreachable says why the controller could not be asked, and what to do.
func (c *Client) unreachable(err error) error {
	var alert *net.OpError
	var record tls.RecordHeaderError
	var dns *net.DNSError
	var verify *tls.CertificateVerificationError
	say := func(what string) error { return fmt.Errorf("cannot ask the controller at %s: %s", c.where, what) }
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &alert) && alert.Op == "remote error":
		return &untrusted{say(fmt.Sprintf("it did not take this certificate (%v). It comes from another CA than the controller's, or has expired: make one with `firebreak certs` in the folder that holds the controller's CA", alert.Err))}
	case errors.Is(err, context.DeadlineExceeded) || os.IsTimeout(err):
		return say(fmt.Sprintf("no answer within %v. Is there a firewall between, or is the address another one? --timeout waits longer", c.timeout))
	case errors.Is(err, syscall.ECONNREFUSED):
		return say("nobody listens there. Is firebreak-controller running, and is this its api.listen?")
	case errors.Is(err, fs.ErrNotExist):
		return say("there is no such socket. Is firebreak-controller running on this machine, and is this its api.listen?")
	case errors.Is(err, fs.ErrPermission):
		return say("you may not open that socket. It belongs to the controller's user: become that user (sudo), or use its https address with a certificate of your own")
	case errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch):
		return say("what answers there speaks no TLS. Is the port another one (metrics are on a port of their own)?")
	case errors.As(err, &verify) || strings.Contains(err.Error(), "cannot be trusted"):
		return &untrusted{say(innermost(err))}
	case errors.As(err, &dns):
		return say(fmt.Sprintf("no address for %s: %s", dns.Name, dns.Err))
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET):
		return say("it closed the connection. Is it just starting or stopping? Try again")
	case errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH):
		return say("no route to it from here")
	}
	return say(err.Error())
}

// innermost leaves out what http and url say around an error.
func innermost(err error) string {
	text := err.Error()
	if i := strings.Index(text, "the API at the other end"); i >= 0 {
		return text[i:]
	}
	return text
}
