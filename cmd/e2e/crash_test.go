package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// points finds every fault point in the source, so that none is forgotten.
func points(t *testing.T) []string {
	t.Helper()
	mark := regexp.MustCompile(`fault\.Point\("([a-z.-]+)"\)`)
	var found []string
	err := filepath.WalkDir("../../service", func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.Contains(path, "internal/fault") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range mark.FindAllStringSubmatch(string(b), -1) {
			if slices.Contains(found, m[1]) {
				t.Errorf("the fault point %s stands in two places", m[1])
			}
			found = append(found, m[1])
		}
		return err
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("no fault points: %v", err)
	}
	slices.Sort(found)
	return found
}

// The three dimensions of the matrix. A phase is what the journal says at that
// moment; "asking" is working while a request waits for a person, "recovering" a
// recovery that waits for one or brings up its guard.
var (
	phases  = []string{"proposed", "starting", "waiting", "working", "asking", "paused", "blocked", "stopping", "recovering"}
	victims = []string{"service", "guard", "provider", "desktop"}
)

// quiet is no fault point: the victim dies while nothing is under way.
const quiet = "(quiet)"

// moment is a fault point in a phase, and the scene that comes to it. runs says
// which processes of the mission live at that moment: g guard, p provider.
type moment struct {
	point, phase, runs string
	scene              *scene
}

// moments are all that can be reached.
var moments = []moment{
	{"service.proposal-journaled", "proposed", "", &whole},
	{"service.start-journaled", "starting", "", &whole},
	{"service.checkout-prepared", "starting", "", &whole},
	{"service.checkout-journaled", "starting", "", &whole},
	{"service.instructions-written", "starting", "", &whole},
	{"service.guard-spawned", "starting", "", &whole},
	{"guard.recorded", "starting", "g", &whole},
	{"guard.fence-written", "starting", "g", &whole},
	{"service.guard-claimed", "starting", "g", &whole},
	{"service.guard-started", "starting", "g", &whole},
	{"service.turn-journaled", "working", "g", &whole},
	{"guard.turn-logged", "working", "g", &whole},
	{"service.turn-sent", "working", "g", &whole},
	{"guard.provider-recorded", "working", "gp", &whole},
	{"guard.request-logged", "working", "gp", &whole},
	{"service.rule-journaled", "working", "gp", &whole},
	{"service.request-read", "working", "gp", &whole},
	{"service.request-journaled", "asking", "gp", &whole},
	{"service.answer-journaled", "working", "gp", &whole},
	{"guard.answer-logged", "working", "gp", &whole},
	{"guard.answer-logged", "stopping", "gp", &stopping},
	{"guard.answer-given", "working", "gp", &whole},
	{"service.answer-delivered", "working", "gp", &whole},
	{"guard.turn-end-logged", "working", "g", &whole},
	{"guard.turn-end-logged", "stopping", "g", &stopping},
	{"service.turn-end-read", "working", "g", &whole},
	{"service.turn-end-journaled", "waiting", "g", &whole},
	{"service.turn-end-journaled", "paused", "g", &pausing},
	{"service.end-journaled", "stopping", "g", &whole},
	{"guard.end-logged", "stopping", "g", &whole},
	{"service.tree-empty", "stopping", "", &whole},

	{"service.recovery-asked", "recovering", "", &recovering},
	{"service.recovery-journaled", "recovering", "", &recovering},
	{"service.checkout-prepared", "recovering", "", &unprepared},
	{"service.checkout-journaled", "recovering", "", &unprepared},
	{"service.instructions-written", "recovering", "", &recovering},
	{"service.guard-spawned", "recovering", "", &recovering},
	{"guard.recorded", "recovering", "g", &recovering},
	{"guard.fence-written", "recovering", "g", &recovering},
	{"service.guard-claimed", "recovering", "g", &recovering},
	{"service.guard-started", "recovering", "g", &recovering},

	{quiet, "proposed", "", &quietProposed},
	{quiet, "waiting", "g", &quietWaiting},
	{quiet, "working", "gp", &quietWorking},
	{quiet, "asking", "gp", &quietAsking},
	{quiet, "paused", "g", &quietPaused},
	{quiet, "blocked", "g", &quietBlocked},
	{quiet, "recovering", "", &quietRecovering},
}

// adoption are the points of a restart: each is reached in every phase in which
// a guard lives.
func init() {
	for _, point := range []string{"service.adopt-claimed", "service.adopt-replayed", "guard.fence-written"} {
		for _, r := range []moment{
			{phase: "starting", runs: "g", scene: &restartStarting}, {phase: "waiting", runs: "g", scene: &restartWaiting},
			{phase: "working", runs: "gp", scene: &restartWorking}, {phase: "asking", runs: "gp", scene: &restartAsking},
			{phase: "paused", runs: "g", scene: &restartPaused}, {phase: "blocked", runs: "g", scene: &restartBlocked},
			{phase: "stopping", runs: "g", scene: &restartStopping}, {phase: "recovering", runs: "g", scene: &restartRecovering},
		} {
			r.point = point
			if point == "guard.fence-written" && (r.phase == "starting" || r.phase == "recovering") {
				continue // the first claim is that moment
			}
			moments = append(moments, r)
		}
	}
}

// elsewhere says why a point is reached in no other phase.
var elsewhere = map[string]string{
	"service.proposal-journaled":   "what is proposed waits for its first decision",
	"service.start-journaled":      "it is what makes a mission start",
	"service.checkout-prepared":    "a checkout is prepared for its first guard, so by a start, or a recovery of one that did not come so far",
	"service.checkout-journaled":   "a checkout is prepared for its first guard, so by a start, or a recovery of one that did not come so far",
	"service.instructions-written": "instructions are written for a new guard, so by a start or a recovery",
	"service.guard-spawned":        "a guard is spawned by a start or a recovery",
	"guard.recorded":               "a guard writes its record once, when it comes up",
	"guard.fence-written":          "a proposed mission has no guard",
	"service.guard-claimed":        "only a start or a recovery claims a new guard; an adoption has its own point",
	"service.guard-started":        "only a start or a recovery starts a guard",
	"service.turn-journaled":       "it is what makes a mission work",
	"guard.turn-logged":            "a turn begins when the mission works already",
	"service.turn-sent":            "a turn is sent when the mission works already",
	"guard.provider-recorded":      "a provider is launched for a turn",
	"guard.request-logged":         "an agent asks in a turn, and the demo agent asks one thing at a time; a turn that is being ended takes no question",
	"service.rule-journaled":       "a request is read in a turn, and the demo agent asks one thing at a time",
	"service.request-read":         "a request is read in a turn, and the demo agent asks one thing at a time",
	"service.request-journaled":    "it is what makes a mission ask",
	"service.answer-journaled":     "the answer ends the asking; what waits when a mission is stopped is withdrawn, not answered",
	"guard.answer-logged":          "without a turn no request is open; what ends the asking may have reached the service already",
	"guard.answer-given":           "a turn that is being ended withdraws what it asked, and gives no answer",
	"service.answer-delivered":     "the answer ended the asking",
	"guard.turn-end-logged":        "a mission is working, or stopping in its turn, until the service has read its end",
	"service.turn-end-read":        "the end of a turn in any other phase is journaled without a step",
	"service.turn-end-journaled":   "a turn ends in waiting or in paused; the schedule blocks or stops after that",
	"service.end-journaled":        "it is what makes a mission stop",
	"guard.end-logged":             "a guard ends by itself only without a service for five minutes or at the deadline, which have tests of their own",
	"service.tree-empty":           "only a mission that stops settles",
	"service.recovery-asked":       "only a lost mission is recovered",
	"service.recovery-journaled":   "only a lost mission is recovered",
	"service.adopt-claimed":        "a proposed mission has no guard",
	"service.adopt-replayed":       "a proposed mission has no guard",
	quiet:                          "it lasts for moments, each of which has its point",
}

// missing says why a victim doesn't die at a moment that is reached.
func (m moment) missing(victim string) string {
	switch {
	case victim == "guard" && m.point == "service.guard-spawned":
		return "the guard may not be on record yet; guard.recorded is that moment"
	case victim == "guard" && !strings.Contains(m.runs, "g"):
		return "no guard runs"
	case victim == "provider" && m.point == "service.turn-sent":
		return "the provider may not be on record yet; guard.provider-recorded is that moment"
	case victim == "provider" && !strings.Contains(m.runs, "p"):
		return "no provider runs: each turn has its own, which ends before the turn does"
	}
	return ""
}

// cell is one death.
type cell struct {
	moment
	victim string
}

func (c cell) name() string { return c.point + "/" + c.phase + "/" + c.victim }

// sample are the cells that every test run tries; REEVE_TEST_CRASH=all tries
// them all.
var sample = []string{
	"service.start-journaled/starting/service", "service.guard-spawned/starting/service", "guard.fence-written/starting/guard",
	"service.turn-journaled/working/service", "service.request-journaled/asking/service", "service.answer-journaled/working/desktop",
	"guard.answer-logged/working/guard", "service.turn-end-read/working/service", "service.tree-empty/stopping/service",
	"service.adopt-claimed/asking/guard", "service.recovery-journaled/recovering/service", "(quiet)/asking/provider",
}

// TestCrash is the kill matrix: each process of a whole mission is killed at each
// place and in each phase in which it can be; then the mission goes on as a
// person would have it (restart, recover, answer what waits), and what must hold
// after every crash is checked. REEVE_TEST_CRASH chooses cells: all, or a regular
// expression of their names.
func TestCrash(t *testing.T) {
	// A worker's bridge comes to its points by calls of its own, at which
	// another test kills the service: they are no part of a mission's life.
	all := slices.DeleteFunc(points(t), func(p string) bool { return strings.HasPrefix(p, "bridge.") })
	var cells []cell
	at := map[string]bool{} // "point/phase" that is reached
	covered := map[string]bool{}
	unreachable := 0
	for _, m := range moments {
		if m.point != quiet && !slices.Contains(all, m.point) {
			t.Errorf("the table has %s, which is no fault point", m.point)
		}
		at[m.point+"/"+m.phase], covered[m.point] = true, true
		for _, v := range victims {
			if m.missing(v) == "" {
				cells = append(cells, cell{m, v})
			} else {
				unreachable++
			}
		}
	}
	for _, p := range append([]string{quiet}, all...) {
		if !covered[p] {
			t.Errorf("the fault point %s is in no cell", p)
		}
		for _, phase := range phases {
			if !at[p+"/"+phase] {
				unreachable += len(victims)
				if elsewhere[p] == "" {
					t.Errorf("%s is not reached while %s, and nothing says why", p, phase)
				}
			}
		}
	}
	chosen := func(c cell) bool { return slices.Contains(sample, c.name()) }
	switch which := os.Getenv("REEVE_TEST_CRASH"); which {
	case "":
		for _, s := range sample {
			if !slices.ContainsFunc(cells, func(c cell) bool { return c.name() == s }) {
				t.Errorf("the sample names %s, which is no cell", s)
			}
		}
	case "all":
		chosen = func(cell) bool { return true }
	default:
		re := regexp.MustCompile(which)
		chosen = func(c cell) bool { return re.MatchString(c.name()) }
	}
	var mu sync.Mutex
	held := map[string]bool{} // cells that were tried and in which all held
	tried := 0
	t.Run("cells", func(t *testing.T) {
		for _, c := range cells {
			if !chosen(c) {
				continue
			}
			tried++
			t.Run(c.name(), func(t *testing.T) {
				t.Parallel()
				die(t, c)
				mu.Lock()
				defer mu.Unlock()
				held[c.name()] = !t.Failed()
			})
		}
	})
	t.Log(table(all, held))
	t.Logf("%d of %d cells tried; %d can't be reached; %d fault points", tried, len(cells), unreachable, len(all))
	for p := range covered {
		if tried == len(cells) && !slices.ContainsFunc(cells, func(c cell) bool { return c.point == p && held[c.name()] }) {
			t.Errorf("the fault point %s was never hit", p)
		}
	}
}

// table draws the matrix: a letter for each victim that died, a small one where
// something did not hold, a dash where it can't die, and a dot for what was not tried.
func table(points []string, held map[string]bool) string {
	var b strings.Builder
	why := map[string][]string{} // reason → "point while phase"
	b.WriteString("the kill matrix: S service, G guard, P provider, D desktop\n")
	fmt.Fprintf(&b, "%-30s", "")
	for _, phase := range phases {
		fmt.Fprintf(&b, "%-11s", phase)
	}
	for _, p := range append([]string{quiet}, points...) {
		fmt.Fprintf(&b, "\n%-30s", p)
		for _, phase := range phases {
			entry := "–"
			if i := slices.IndexFunc(moments, func(m moment) bool { return m.point == p && m.phase == phase }); i >= 0 {
				entry = ""
				for _, v := range victims {
					c := cell{moments[i], v}
					letter := strings.ToUpper(v[:1])
					if ok, tried := held[c.name()]; !tried {
						letter = "."
					} else if !ok {
						letter = v[:1]
					}
					if reason := c.missing(v); reason != "" {
						letter = "–"
						why[v+": "+reason] = append(why[v+": "+reason], p+" while "+phase)
					}
					entry += letter
				}
			}
			fmt.Fprintf(&b, "%-11s", entry)
		}
	}
	b.WriteString("\nunreachable phases of a point:")
	for _, p := range append([]string{quiet}, points...) {
		fmt.Fprintf(&b, "\n  %s: %s", p, elsewhere[p])
	}
	b.WriteString("\nunreachable victims at a moment:")
	for _, reason := range slices.Sorted(maps.Keys(why)) {
		fmt.Fprintf(&b, "\n  %s (%s)", reason, strings.Join(why[reason], ", "))
	}
	return b.String()
}
