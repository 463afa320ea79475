package view

import (
	"fmt"

	"firebreakdns.io/firebreak/controller/run"
)

// Meaning is what a verdict says of a client, in one sentence. It claims nothing
// of resolvers outside the fleet: what a client asks those, nobody here sees.
func Meaning(v run.Verdict) string {
	switch v {
	case run.Followed:
		return "It lost this server and was answered by another one."
	case run.Stuck:
		return "It asked again and again, and no server of this fleet answered it."
	case run.Quiet:
		return "It asked too little while the server was away to tell."
	case run.Elsewhere:
		return "It was a target, and asked this server nothing, in the hour before or during the drill: another server answers it anyway."
	case run.Unknown:
		return "It would be stuck, but a server of this fleet that may have answered it could not be heard."
	}
	return ""
}

// NextStep is what to do about clients with that verdict; "" where nothing is.
func NextStep(v run.Verdict) string {
	switch v {
	case run.Stuck:
		return "If it has a resolver outside the fleet, what that answered is not seen here: look at the client itself. " +
			"If not, it had no DNS: give it a second server, with another nameserver line in its resolv.conf, a second address in its DHCP lease, or the node cache in front of it. " +
			"If it has one of the fleet's, look at what keeps it from being used: a resolver that asks the first server only, a firewall towards the second, a timeout longer than the drill. Then drill it alone."
	case run.Quiet:
		return "Drill again when it is busy, or for longer, or have it look something up during the drill: nothing is known of its failover yet."
	case run.Unknown:
		return "Make the server that was not heard reachable for the controller (`firebreak servers` says what is wrong with it) and drill again."
	}
	return ""
}

// halfLost is what to do about clients that followed and yet lost more than half
// of the questions that the drill took from them; "" where there are none. One
// address may be several that ask: an application that follows makes up for
// none that does not.
func halfLost(clients []run.ClientReport) string {
	var who []string
	for _, c := range clients {
		if c.Verdict == run.Followed && some(c.Lost) && 2**c.Lost > c.DrilledQuestions && c.DrilledQuestions > 0 {
			who = append(who, fmt.Sprintf("%s (%s of %s)", c.Address, estimate(c.Lost, c.LostSampled), count(c.DrilledQuestions)))
		}
	}
	if len(who) == 0 {
		return ""
	}
	return clean(fmt.Sprintf("More than half of the questions that the drill took were lost by %s: something there asks this server only, and what was answered may be something else's, "+
		"an application with other servers or another host behind the same address. Look at each of them: for that part this is no pass. (A resolver outside the fleet is not seen here.)", list(who, 5)))
}

// Advice is what to do about the reason that a run was refused, stopped or failed with.
func Advice(r run.Reason) string {
	switch r {
	case run.DrillsOff:
		return "Switch drills on in both places: the drill directive in the server's Corefile, and drills.enabled of the controller."
	case run.OutsideWindow:
		return "Start it inside the fleet's window, early enough to finish in it, or make it shorter."
	case run.TargetNotFound:
		return "Run `firebreak servers` for the names of the fleet's servers, with -o wide also for their upstreams."
	case run.TargetTooOld:
		return "Upgrade that server to a version that can drill, with the clients, drill and control directives in its Corefile."
	case run.TargetBusy:
		return "Wait until the server is ready and reachable: `firebreak servers` says what it is waiting for. Drilling one that is already away proves nothing."
	case run.LastHealthy:
		return "Bring another server of the fleet up first, and see that it answers. This one is all that its clients have."
	case run.NoHealthCheck:
		return "Give the server a readiness probe and write `ready { monitor continuously }` in its Corefile, or drill with --readiness pass."
	case run.DrillRunning:
		return "Wait for the other drill to end, or stop it: `firebreak drill list` names it."
	case run.TooSoon:
		return "Wait as long as the check says: clients need to settle after the last drill, or the numbers before this one mean nothing."
	case run.RolloutRunning:
		return "Wait for the rollout to finish: two changes at once cannot be told apart."
	case run.IncidentOpen:
		return "Solve the incident first, or what is wrong with the other servers' answers. A drill is for quiet days."
	case run.NoHeadroom:
		return "Give the other servers more CPU, or add one: they could not carry this one's clients, in a drill or in a real failure."
	case run.NoTargets:
		return "Name clients that ask this server (`firebreak clients affinity`), or drill --everyone."
	case run.OutOfBounds:
		return "Ask again with a value that the check allows: it names the field and its bounds."
	case run.StateNotWritable:
		return "Make room on the disk of the controller's state folder, or let the controller write there: it tries again every few seconds, and says in its log when it can."
	case run.ReasonMissing:
		return "Say why with --reason: it goes into the audit log and the report."

	case run.ErrorsOnSurvivors:
		return "Look at what the other servers answered with SERVFAIL or REFUSED: an upstream that only this server can reach, an ACL, or a limit that the extra clients ran into."
	case run.RetriesRising:
		return "The other servers were too slow for their clients, who asked again. Add servers or CPU, or put the node cache in front; in a real failure this grows into an avalanche."
	case run.LatencyRising:
		return "The other servers slowed down under this server's clients. Add servers or CPU, or put the node cache in front."
	case run.DenialsRising:
		return "Look up the internal names with each of the other servers: one of them lacks a zone that this server has. Give it that zone, or take it out of the clients' resolv.conf."
	case run.AnswersTooSlow:
		return "Find out why the other servers take so long (an upstream that they wait for?). Until then their clients give up before they are answered."
	case run.MonitorLost:
		return "A lookup like those of ordinary clients failed three times in a row. Find out which server it asked, and why its second attempt did not help."
	case run.NoneHealthy:
		return "The fleet had one server too few. Add one, and find out why the other went away during the drill."
	case run.NotNoticed:
		return "Nothing took the server out of use. Check its readiness probe (`ready { monitor continuously }`), and that clients know a second server."
	case run.NotAcknowledged:
		return "The server did not take the order. Check that the controller reaches its control endpoint and may call it: `firebreak servers`."
	case run.NotBack:
		return "The server is not what it was before the drill. Look at it now: `firebreak servers`, its log, and its readiness URL."
	case run.SlowToNotice:
		return "Have readiness probed more often, or lower its failure threshold: until then a dead server keeps getting queries."
	case run.SlowToMove:
		return "Shorten the clients' timeouts (`options timeout:1 attempts:2` for glibc), or put the node cache in front of them."
	case run.NotMoved:
		return "Clients were still asking the dead server at the end. Look at who in the table of clients, and give those a second server or a shorter timeout."
	case run.ClientsStuck:
		return "See whether each stuck client has a resolver outside the fleet: what that answered is not seen here. Where it has none, give it a second server, or find out why it does not use the one it has; then drill those clients alone."
	case run.NoEvidence:
		return "Nobody asked enough to tell. Drill when clients are busy, for longer, or more clients."
	case run.Incomplete:
		return "A server could not say whether it answered. Make it reachable for the controller and drill again: no data is not a pass."

	case run.StoppedByCaller:
		return "Drill again when it suits; nothing is left to put back."
	case run.SwitchedOff:
		return "Drills were switched off while this one ran. Switch them on and drill again."
	case run.RolloutStarted:
		return "Drill again when the rollout is over, and not while one may start."
	case run.IncidentOpened:
		return "Look at the incident first: the drill made way for it."
	case run.OtherServerLost:
		return "Look at the server that failed: the drill did not touch it."
	case run.ServerRestarted:
		return "Find out why the server restarted (its log, its memory limit). The restart ended the drill."
	case run.ServerLost:
		return "Find out why the controller no longer reached the server. It put itself back: a drill that nobody renews ends within 30 s."
	case run.ControllerLost:
		return "Find out why the controller was away. The server put itself back; drill again with the controller up."
	}
	return ""
}
