package protocol

// PathPurge is where cached answers are forgotten: POST PurgeOrder, answers
// Purged.
const PathPurge = "/v1/cache/purge"

// FeatureCache in State.Features: the nodecache plugin is on, PathPurge.
const FeatureCache = "cache"

// PurgeOrder names what is to be forgotten, in all server blocks.
type PurgeOrder struct {
	Name    string `json:"name"`    // a domain name, with or without its last dot
	Subtree bool   `json:"subtree"` // and everything below it; with "." all there is
}

// Purged says how much was forgotten.
type Purged struct {
	Removed int `json:"removed"` // answers: a name has one per type and kind of query
}
