package run

// Window is a weekly span of time in which a drill may start and must be able
// to finish, on the wall clock of a time zone.
type Window struct {
	Days      []string `json:"days,omitempty" yaml:"days"` // mon tue wed thu fri sat sun; none: every day
	StartTime string   `json:"startTime" yaml:"startTime"` // 15:04
	EndTime   string   `json:"endTime" yaml:"endTime"`     // 15:04; at or before StartTime: of the next day
	TimeZone  string   `json:"timeZone" yaml:"timeZone"`   // IANA name; UTC where empty
}
