package wire

import (
	"encoding/json"
	"time"
)

// Limits bound what a mission's processes may use; zero means no limit.
type Limits struct {
	MemoryMB   int64 `json:"memory_mb,omitempty"`   // of all its processes together, in MiB
	CPUMinutes int64 `json:"cpu_minutes,omitempty"` // of all its processes together
}

// Resources is what a mission's processes use, measured by its guard. The
// guard's own figures begin with the guard; in a Mission the peak and the
// processor time are those of all its attempts.
type Resources struct {
	At          time.Time `json:"at"`
	MemoryBytes int64     `json:"memory_bytes"`      // now
	PeakBytes   int64     `json:"memory_peak_bytes"` // the most that was measured
	CPUSeconds  float64   `json:"cpu_seconds"`       // in total
	Processes   int       `json:"processes"`         // now
	// Method says how the processes are held together (scope, cgroup,
	// subreaper, job, walk), and LimitBy who keeps the memory limit: the
	// system (cgroup, job) or the guard's own watch (guard).
	Method  string `json:"method"`
	LimitBy string `json:"limit_by,omitempty"`
}

// Worktree is the working tree that a mission was given for itself. The
// mission's folder stays the repository that it was made from.
type Worktree struct {
	Path   string `json:"path"`
	Branch string `json:"branch"`
	Base   string `json:"base"`  // the commit it was made from
	State  string `json:"state"` // planned | made | removed
	// Merged is the commit that brought the branch into the repository's own.
	Merged string `json:"merged,omitempty"`
}

// ChangesParams asks what changed in a mission's checkout since it was
// claimed; with Path the patch is of that file alone.
type ChangesParams struct {
	ID   string `json:"id"`
	Path string `json:"path,omitempty"`
}

// ChangesResult compares the checkout as it is with how it was when the
// mission claimed it, so that what a person had changed before is not shown.
type ChangesResult struct {
	Mission string        `json:"mission_id"`
	At      time.Time     `json:"at"`
	Base    string        `json:"base"` // the tree compared with
	Files   []ChangedFile `json:"files"`
	More    bool          `json:"more,omitempty"` // there are more files than are listed
	// Patch is a string in unified form, or a BlobRef to its JSON when it is
	// over BlobThreshold; PatchCut says that it was longer still.
	Patch    json.RawMessage `json:"patch"`
	PatchCut bool            `json:"patch_cut,omitempty"`
	// Worktree tells how the mission's own worktree stands, if it has one.
	Worktree *WorktreeState `json:"worktree,omitempty"`
}

// ChangedFile is one file that differs. SinceLost: it was changed after the
// mission's worker was lost, so not by the agent.
type ChangedFile struct {
	Path      string `json:"path"`
	From      string `json:"from,omitempty"` // the old name of a renamed file
	Status    string `json:"status"`         // added | modified | deleted | renamed | typechange | restored
	Added     int    `json:"added"`          // lines
	Removed   int    `json:"removed"`        // lines
	Binary    bool   `json:"binary,omitempty"`
	SinceLost bool   `json:"since_lost,omitempty"`
}

// WorktreeState is what would be lost, or is safe, when a worktree is removed.
type WorktreeState struct {
	Missing     bool     `json:"missing,omitempty"` // the folder is not there any more
	Uncommitted []string `json:"uncommitted"`       // changed files, the first 100
	Untracked   []string `json:"untracked"`         // files that git doesn't know, the first 100
	Files       int      `json:"files"`             // how many of both there are
	Ignored     int      `json:"ignored"`           // ignored files and folders, such as build output or .env
	Nested      []string `json:"nested,omitempty"`  // repositories inside, with a history of their own
	Loose       int      `json:"loose,omitempty"`   // commits that no branch, tag or remote holds
	// UnderWay names a rebase, a merge or the like that is under way, whose
	// autostash is nowhere else; Refs are git references of this worktree alone,
	// the first 100.
	UnderWay []string `json:"under_way,omitempty"`
	Refs     []string `json:"refs,omitempty"`
	Ahead    int      `json:"ahead"`  // commits on the branch since it was made
	Merged   bool     `json:"merged"` // the branch is part of the repository's own
	Pushed   bool     `json:"pushed"` // some remote has all of the branch
	// Digest names exactly this state; a removal that would lose something
	// must repeat it.
	Digest string `json:"digest"`
}

// Actions on a worktree.
const (
	WorktreeCommit = "commit" // commits what is uncommitted to its branch
	WorktreeMerge  = "merge"  // merges its branch into the repository's own
	WorktreeRemove = "remove" // removes the folder; the branch too, when nothing of it is lost
)

// WorktreeParams acts on the worktree of a mission that has ended. Message is
// that of a commit. Discard repeats the digest of the state that a person saw,
// and is needed to remove work that is saved nowhere else.
type WorktreeParams struct {
	RequestKey string `json:"request_key,omitempty"`
	ID         string `json:"id"`
	Action     string `json:"action"`
	Message    string `json:"message,omitempty"`
	Discard    string `json:"discard,omitempty"`
}

// WorktreeResult tells what was done, and how the worktree stands now.
type WorktreeResult struct {
	Mission Mission `json:"mission"`
	Done    string  `json:"done"` // a sentence
	// State is null once the worktree was removed.
	State *WorktreeState `json:"state"`
}
