package demo

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// run is one turn. The last line that it says ends it properly.
func (t *turn) run() error {
	if err := t.think("I look at what is asked for before I touch anything."); err != nil {
		return err
	}
	if err := t.steered(t.ask.steering); err != nil {
		return err
	}
	acted, err := t.act()
	if err != nil {
		return err
	}
	two := t.ask.has("two-turns")
	if !acted {
		if err := t.work(two && t.session.Turns > 1, two && t.session.Turns == 1); err != nil {
			return err
		}
	}
	if err := t.listen(true); err != nil {
		return err
	}
	next := "done"
	switch {
	case two && t.session.Turns == 1, t.session.Turns < t.ask.number("turns"):
		next = "runnable"
	case t.ask.has("wait") && len(t.ask.steering) == 0:
		next = "waiting"
	}
	report := "Everything that was asked for is finished."
	if len(t.denied) > 0 {
		report = "Finished, except for what was denied: " + strings.Join(t.denied, ", ") + "."
	}
	return t.say("%s\n\nWORK_NEXT: %s", report, next)
}

// steered follows the person's new instructions.
func (t *turn) steered(texts []string) error {
	for _, text := range texts {
		m := addLine().FindStringSubmatch(text)
		if m == nil {
			if err := t.say("Understood: %q.\n", text); err != nil {
				return err
			}
			continue
		}
		line, name := strings.Trim(m[1], "\"'“”`"), m[2]
		if !filepath.IsLocal(name) {
			if err := t.say("I won't touch %s: it is outside the folder.\n", name); err != nil {
				return err
			}
			continue
		}
		old, err := os.ReadFile(t.path(name))
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		done, err := t.write(name, "You asked for this line", withLine(string(old), line))
		if err != nil {
			return err
		}
		if done {
			if err := t.say("I added the line to %s, as you asked.\n", name); err != nil {
				return err
			}
		}
	}
	return nil
}

func withLine(text, line string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + line + "\n"
}

// work is the usual work. checkOnly and editOnly make two turns of it.
func (t *turn) work(checkOnly, editOnly bool) error {
	t.plan = []string{"Read the README and the program", "Mend what is wrong", "Run the check", "Report"}
	if err := t.step(0); err != nil {
		return err
	}
	if !checkOnly {
		if err := t.mend(); err != nil {
			return err
		}
	}
	if err := t.step(2); err != nil {
		return err
	}
	if !editOnly {
		if err := t.check(); err != nil {
			return err
		}
	}
	return t.step(3)
}

func (t *turn) mend() error {
	for _, name := range []string{"README.md", program} {
		if _, err := os.Stat(t.path(name)); err != nil {
			continue
		}
		if _, _, err := t.read(name); err != nil {
			return err
		}
	}
	if err := t.step(1); err != nil {
		return err
	}
	b, err := os.ReadFile(t.path(program))
	text := string(b)
	switch {
	case err == nil && strings.Contains(text, bug):
		if err := t.think("The factors are swapped: it must be 5/9, not 9/5."); err != nil {
			return err
		}
		done, err := t.write(program, "Swap the factors: Celsius is 5/9 of the difference", strings.Replace(text, bug, fixed, 1))
		if err != nil || !done {
			return err
		}
		return t.say("The conversion now uses 5/9.\n")
	case err == nil:
		return t.say("%s is right already; there is nothing to mend.\n", program)
	}
	notes, err := os.ReadFile(t.path("NOTES.md"))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	_, err = t.write("NOTES.md", "Leave a note that the demo was here", withLine(string(notes), "- The demo agent of Reeve was here."))
	return err
}

// check runs the checkout's own test.
func (t *turn) check() error {
	args := []string{"sh", "check.sh"}
	if _, err := os.Stat(t.path("check.sh")); err != nil {
		args = nil
		if _, err := os.Stat(t.path("go.mod")); err == nil {
			if _, err := exec.LookPath("go"); err == nil {
				args = []string{"go", "test", "./..."}
			}
		}
	}
	if args == nil {
		return t.say("There is no check that I could run here.\n")
	}
	denied := len(t.denied)
	_, passed, err := t.command("Run the check of this repository", args...)
	switch {
	case err != nil || len(t.denied) > denied:
		return err
	case passed:
		return t.say("The check passes.\n")
	}
	return t.say("The check fails; the report says what is left.\n")
}
