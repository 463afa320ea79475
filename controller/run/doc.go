// Package run is a drill's run, from plan to report, as a pure state machine.
//
//	Planned → Reading → Asking → Out → Noticed → Held → Back → Recording → Done
//
// or Refused at once. Step takes a Run, an Observation of the world and the
// time, and returns the Run as it is now and the Actions that the caller is to
// carry out. It reads no clock, no file and no network, so every path is a
// transcript on disk (testdata). The caller saves a Run that changed before it
// carries out what was asked, and reports what came of each Action in the next
// Observation; so a controller that dies in the middle finds in the Run all
// that it needs to go on, or to put back what was changed.
//
// Beside the machine stand its parts, pure too: the guards (why a drill may not
// start), the stop rules (why it ends early), the verdicts (what each client
// did), the outcome and the report, and when a schedule is due.
package run
