package mission

import (
	"slices"
	"time"
)

// Times of an update of the service.
const (
	// UpdateLimit is how long an update may take from its begin to its commit;
	// then it is undone whole.
	UpdateLimit = 90 * time.Second
	// UpdatePatience is how long a worker that has to be ended may take to
	// finish its turn. What is left of UpdateLimit is for ending it, and for
	// the owner of the update.
	UpdatePatience = 60 * time.Second
	// manifestAge is how old the manifest of an update may grow until the next
	// service reads it.
	manifestAge = 10 * time.Minute
)

// UpdateOver reports whether an update that began then has used up its time, by
// whichever clock is ahead.
func UpdateOver(began, now Instant) bool {
	if now.Wall.Round(0).Sub(began.Wall.Round(0)) >= UpdateLimit {
		return true
	}
	return began.BootID != "" && began.BootID == now.BootID && now.Boot-began.Boot >= UpdateLimit
}

// UpdateAct is what an update does about one worker.
type UpdateAct string

// The acts. Only UpdateEnd does something.
const (
	UpdateGoesOn UpdateAct = "goes_on" // the next service adopts it
	UpdateWait   UpdateAct = "wait"    // it starts, settles, or its turn may end by itself
	UpdateEnd    UpdateAct = "end"     // its guard is ended; the mission goes on in a new one
	UpdateLeave  UpdateAct = "leave"   // it has no guard that this service can command
)

// UpdateWorker is what an update looks at.
type UpdateWorker struct {
	Phase    Phase
	Guard    GuardState
	Protocol int  // of its guard
	Turn     bool // one is in flight
	// Asks: the turn waits for a person, who can allow nothing while an update
	// is open. So it can't end by itself.
	Asks bool
}

// Act says what is done about a worker when the next service speaks no guard
// protocol older than oldest. Most workers go on, turn and all: only what the
// next service could not talk to is ended, after its turn if that may end.
func (w UpdateWorker) Act(oldest int) UpdateAct {
	switch {
	case !w.Phase.Live():
		return UpdateLeave
	case w.Phase == Starting:
		return UpdateWait // it has no guard yet, or only half of one
	case w.Guard != GuardAnswers:
		return UpdateLeave
	case w.Protocol >= oldest:
		return UpdateGoesOn
	case w.Phase == Stopping, w.Turn && !w.Asks:
		return UpdateWait
	}
	return UpdateEnd
}

// UpdateManifest is what a service leaves to the next one: where each mission
// stood, and which of them go on without being asked about.
type UpdateManifest struct {
	Format     int           `json:"format"`     // 1
	Generation uint64        `json:"generation"` // of the service that wrote it
	At         time.Time     `json:"at"`
	Boot       time.Duration `json:"boot_ns"`
	BootID     string        `json:"boot_id"`
	// Missions, parents before their children: an older one is never the child
	// of a newer one.
	Missions []UpdateEntry `json:"missions"`
}

// ManifestFormat is the format of manifests that this release writes and reads.
const ManifestFormat = 1

// UpdateEntry is one mission of a manifest.
type UpdateEntry struct {
	Mission string `json:"mission"`
	Attempt string `json:"attempt"`
	Phase   Phase  `json:"phase"`   // before its guard was ended, if it was
	GoesOn  bool   `json:"goes_on"` // its guard lives, to be adopted
	// Turn is the newest whose prompt was accepted, and Interrupted says that
	// the update ended it.
	Turn        int   `json:"turn"`
	Interrupted bool  `json:"interrupted"`
	Queued      []int `json:"queued_steering"` // ids of instructions that wait for a turn
	// Resume: the mission goes on by itself in the next service.
	Resume bool `json:"resume"`
}

// NewManifest writes down where missions stand. They are put in order.
func NewManifest(now Instant, generation uint64, missions []UpdateEntry) UpdateManifest {
	slices.SortFunc(missions, func(a, b UpdateEntry) int {
		if a.Mission < b.Mission { // ids rise with the time of their proposal
			return -1
		}
		return 1
	})
	return UpdateManifest{Format: ManifestFormat, Generation: generation, At: now.Wall.Round(0).UTC(), Boot: now.Boot, BootID: now.BootID, Missions: missions}
}

// Refuse says why a manifest that the service of this generation found resumes
// nothing, or "". A manifest serves the very next service alone, so that nothing
// is ever resumed twice.
func (m UpdateManifest) Refuse(now Instant, generation uint64) string {
	switch {
	case m.Format != ManifestFormat:
		return "it was written by another version of Reeve, whose format this one can't read"
	case m.Generation == 0 || m.Generation+1 != generation:
		return "another service ran since it was written"
	case m.BootID == "" || m.BootID != now.BootID:
		return "the machine was started anew since it was written"
	case now.Boot-m.Boot > manifestAge || now.Boot < m.Boot:
		return "it is older than 10 minutes"
	}
	return ""
}

// ResumesAfterUpdate says whether a mission whose guard an update ended goes on
// by itself. A mission that was blocked needs a person anyway, and one with
// secret variables would go on without them: they are never written anywhere.
func ResumesAfterUpdate(before Phase, secrets bool) bool {
	switch before {
	case Waiting, Working, Paused:
		return !secrets
	}
	return false
}

// Fits says whether the journal still has the mission as the manifest has it.
func (e UpdateEntry) Fits(attempt string, turn int, queued []int) bool {
	return e.Attempt == attempt && e.Turn == turn && slices.Equal(e.Queued, queued)
}
