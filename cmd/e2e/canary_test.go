//go:build linux

package e2e

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reevehq/reeve/ipc/sock"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/keychain/keyring"
)

// hunt looks for secrets: as they are, in base64 at any offset, and in hex.
type hunt struct {
	t     *testing.T
	names []string
	forms [][]byte
	of    []int
}

func newHunt(t *testing.T, secrets map[string]string) *hunt {
	h := &hunt{t: t}
	for name, secret := range secrets {
		at := len(h.names)
		h.names = append(h.names, name)
		add := func(form string) {
			h.forms, h.of = append(h.forms, []byte(form)), append(h.of, at)
		}
		add(secret)
		add(hex.EncodeToString([]byte(secret)))
		add(strings.ToUpper(hex.EncodeToString([]byte(secret))))
		for before := range 3 {
			// Without the characters that depend on what stands beside it.
			raw := []byte(strings.Repeat("x", before) + secret)
			for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
				text := e.EncodeToString(raw[:len(raw)/3*3])
				add(text[(before*8+5)/6:])
			}
		}
	}
	return h
}

// found names a secret that is in b, "" if there is none.
func (h *hunt) found(b []byte) string {
	for i, form := range h.forms {
		if bytes.Contains(b, form) {
			return h.names[h.of[i]]
		}
	}
	return ""
}

// look searches one thing.
func (h *hunt) look(where string, b []byte) {
	h.t.Helper()
	if name := h.found(b); name != "" {
		h.t.Errorf("%s holds %s", where, name)
	}
}

// TestHunt: what would be found is found.
func TestHunt(t *testing.T) {
	secret := marked()
	h := newHunt(t, map[string]string{"it": secret, "another": marked()})
	for before := range 4 {
		text := []byte(strings.Repeat("?", before) + secret + ">>>")
		for _, form := range []string{string(text), hex.EncodeToString(text), strings.ToUpper(hex.EncodeToString(text)),
			base64.StdEncoding.EncodeToString(text), base64.URLEncoding.EncodeToString(text)} {
			if h.found([]byte("x "+form+" y")) != "it" {
				t.Errorf("%q was not found", form)
			}
		}
	}
	if name := h.found([]byte("canary" + strings.Repeat("0", 48))); name != "" {
		t.Errorf("found %s where nothing is", name)
	}
}

// files searches every file below a directory, and every name.
func (h *hunt) files(dir string) {
	h.t.Helper()
	n := 0
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return nil // it is gone by now
		}
		h.look("the name "+path, []byte(path))
		if e.Type().IsRegular() {
			if b, err := os.ReadFile(path); err == nil {
				n++
				h.look(path, b)
			}
		}
		return nil
	})
	if err != nil || n == 0 {
		h.t.Errorf("%d files of %s were searched: %v", n, dir, err)
	}
}

// processes searches arguments and environment of every process but those of
// the agent, which was given the secrets with approval, and of what it starts.
// It returns how many of those there are.
func (h *hunt) processes(agent string) int {
	h.t.Helper()
	parent, args := map[int]int{}, map[int]string{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		_, rest, _ := strings.Cut(string(stat), ") ")
		if f := strings.Fields(rest); len(f) > 1 {
			parent[pid], _ = strconv.Atoi(f[1])
		}
		b, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		args[pid] = string(b)
	}
	theirs := func(pid int) bool {
		for ; pid > 1; pid = parent[pid] {
			if strings.Contains(args[pid], agent) {
				return true
			}
		}
		return false
	}
	agents, others := 0, 0
	for pid := range parent {
		env, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
		if theirs(pid) {
			agents++
			h.look("the arguments of the agent", []byte(args[pid]))
			continue
		}
		others++
		h.look("the arguments of "+args[pid], []byte(args[pid]))
		h.look("the environment of "+args[pid], env)
	}
	if others < 4 {
		h.t.Errorf("only %d processes were searched", others)
	}
	return agents
}

// overhear watches everything there is, with the transcripts of the sessions. What
// it returns waits for the end of the service, and tells every byte that came.
func (m *machine) overhear(sessions ...string) func() []byte {
	m.t.Helper()
	c, err := sock.Dial(m.t.Context(), m.socket())
	if err != nil {
		m.t.Fatal(err)
	}
	topics := []string{wire.TopicService, wire.TopicMissions, wire.TopicApprovals, wire.TopicRooms, wire.TopicEffects}
	for _, s := range sessions {
		topics = append(topics, wire.TopicSession+s)
	}
	watch, _ := json.Marshal(wire.WatchParams{Topics: topics})
	for _, r := range []wire.Request{{Version: 1, ID: "1", Method: wire.MethodNegotiate}, {Version: 2, ID: "2", Method: wire.MethodWatch, Params: watch}} {
		line, _ := json.Marshal(r)
		if _, err := c.Write(append(line, '\n')); err != nil {
			m.t.Fatal(err)
		}
	}
	// What happens from here on has to be carried, so it is watched by now.
	_ = c.SetReadDeadline(time.Now().Add(waitLimit))
	in, first := bufio.NewReader(c), []byte{}
	for !bytes.Contains(first, []byte(`"id":"2"`)) {
		line, err := in.ReadBytes('\n')
		if err != nil {
			m.t.Fatalf("the socket carries nothing: %v\n%s", err, first)
		}
		first = append(first, line...)
	}
	_ = c.SetReadDeadline(time.Time{})
	said := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(in)
		_ = c.Close()
		said <- append(first, b...)
	}()
	return func() []byte {
		m.t.Helper()
		b := <-said
		for _, want := range append(sessions, wire.EvMission, wire.EvCredentials, wire.EvApproval) {
			if !bytes.Contains(b, []byte(want)) {
				m.t.Errorf("the socket carried no %s", want)
			}
		}
		return b
	}
}

// TestCanary: marked secrets go every way that there is: set in the keychain and
// in the encrypted file, handed over, in the environment of who starts and who
// recovers a mission, given to an agent, borrowed and bound by a worker's bridge,
// through crashes of the service and of a guard, and a recovery. They are found
// nowhere but with the agent: in no argument and no environment, no file, no log,
// no event, no export, nothing that a crash left, and nothing that the socket
// carries to whoever watches.
func TestCanary(t *testing.T) {
	t.Parallel()
	bus := keyring.Start(t, "")
	bus.Unlocked()
	secrets := map[string]string{
		"the key in the keychain": marked(), "the key in the file": marked(), "the key that was handed over": marked(),
		"the key of the environment": marked(), "the passphrase": marked(), "the token of a session": marked(), "a wrong passphrase": marked(),
	}
	chain, file, handed := secrets["the key in the keychain"], secrets["the key in the file"], secrets["the key that was handed over"]
	own := secrets["the key of the environment"]
	passphrase, token := secrets["the passphrase"], secrets["the token of a session"]
	h := newHunt(t, secrets)
	m := newMachine(t)
	m.env = append(m.env, "DBUS_SESSION_BUS_ADDRESS="+bus.Address, "GOTRACEBACK=all")
	m.start()
	said := func(where string, r result, code int) {
		t.Helper()
		if r.code != code {
			t.Errorf("%s: exit %d\n%s%s", where, r.code, r.out, r.err)
		}
		h.look("what "+where+" printed", []byte(r.out+r.err))
	}
	names := []string{"OPENAI_API_KEY", "GEMINI_API_KEY", "MISTRAL_API_KEY", "GROQ_API_KEY"}
	repo := m.vault(names...)
	said("set", m.typed(chain+"\n", "credentials", "set", "OPENAI_API_KEY", "--json"), 0)
	said("set in the file", m.typed(file+"\n"+passphrase+"\n", "credentials", "set", "GEMINI_API_KEY", "--in", "file"), 0)
	said("set with a wrong passphrase", m.typed(file+"\n"+secrets["a wrong passphrase"]+"\n", "credentials", "set", "GEMINI_API_KEY", "--in", "file"), 4)
	said("set of an unknown name", m.typed(chain+"\n", "credentials", "set", "PATH"), 4)
	said("unlock with a wrong passphrase", m.typed(secrets["a wrong passphrase"]+"\n", "credentials", "unlock"), 4)
	overheard := m.overhear()
	v := m.watch()
	hand := func() {
		t.Helper()
		r := do[wire.CredentialListResult](v, wire.MethodCredentialHand, wire.CredentialHandParams{Secrets: map[string]string{"MISTRAL_API_KEY": handed}})
		b, _ := json.Marshal(r)
		h.look("the answer to what was handed over", b)
	}
	hand()

	p := m.demoTerms(repo, "demo:command sh prove.sh\ndemo:command sh prove.sh")
	p.Provider, p.Env["GROQ_API_KEY"] = "acp:vault", own
	mi := v.begin(p)
	ask, _ := v.asked(mi.ID, "prove.sh")
	for _, name := range []string{"OPENAI_API_KEY (secret, from the keychain)", "GEMINI_API_KEY (secret, from the encrypted file)", "MISTRAL_API_KEY (secret, handed over)", `"GROQ_API_KEY (secret)"`} {
		v.wait("the approval of "+name, func() bool {
			for _, a := range v.approvals {
				if a.Mission == mi.ID && strings.Contains(string(a.Subject), name) {
					return true
				}
			}
			return false
		})
	}
	if n := h.processes("demo-agent"); n == 0 {
		t.Error("no agent runs")
	}
	bridge := v.worker(m.repo("other"), waitsForNews)
	session := params{"agent_session_id": "their-session", "agent_session_token": token, "api_url": "https://rooms.example.org"}
	bridge.ok(wire.MethodBindWorker, session)
	bridge.ok(wire.MethodVerifyWorker, session)
	if got := bridge.ok(wire.MethodBorrow, params{"agent_session_id": "their-session", "api_url": "https://rooms.example.org"}); got["credential"] != token {
		t.Errorf("borrowed %v", got["status"])
	}
	bridge.leave()
	h.processes("demo-agent")

	// Service and guard end with a dump of all that they were doing.
	m.signal(syscall.SIGABRT)
	h.look("what the socket carried to a client", overheard())
	h.look("what the service left", []byte(m.logs.text()))
	if !strings.Contains(m.logs.text(), "goroutine ") {
		t.Error("the service left no dump")
	}
	m.start()
	v.wait("the next service", func() bool { return v.service.Generation == 2 && v.f.Client() != nil })
	overheard = m.overhear(mi.Session, bridge.mission.Session)
	if err := syscall.Kill(m.guardOf(mi.Attempt).PID, syscall.SIGABRT); err != nil {
		t.Fatal(err)
	}
	lost := v.lost(mi.ID)
	said("recover without the key of the environment", m.run("recover", mi.ID), 4)
	m.env = append(m.env, "GROQ_API_KEY="+own)
	said("recover", m.run("recover", mi.ID), 0)
	m.env = m.env[:len(m.env)-1]
	ask = do[wire.MissionStartResult](v, wire.MethodMissionRecover, recovery(lost)).Approval
	v.answer(ask, wire.AnswerParams{Allow: true})
	v.wait("the encrypted file", func() bool { return slices.Contains(v.credentials.Wanted, "GEMINI_API_KEY") })
	said("unlock", m.typed(passphrase+"\n", "credentials", "unlock"), 0)
	v.wait("what was handed over before", func() bool { return slices.Contains(v.credentials.Wanted, "MISTRAL_API_KEY") })
	hand()
	for range 2 {
		ask, _ = v.asked(mi.ID, "prove.sh")
		v.answer(ask, wire.AnswerParams{Allow: true})
	}
	v.phase(mi.ID, "completed")
	proven(t, repo, chain, file, handed, own, chain, file, handed, own)

	for _, args := range [][]string{
		{"credentials", "--json"}, {"doctor", "--json"}, {"approvals", "--all", "--json"}, {"show", mi.ID, "--json"}, {"show", bridge.mission.ID, "--json"},
		{"logs", mi.ID, "--json"}, {"logs", bridge.mission.ID}, {"ls", "--all", "--json"}, {"audit", "verify", "--json"}, {"audit", "export"}, {"service", "status", "--json"}, {"providers", "--json"},
	} {
		r := m.run(args...)
		said("reeve "+strings.Join(args, " "), r, r.code)
	}
	v.mu.Lock()
	seen, err := json.Marshal([]any{v.missions, v.approvals, v.service, v.refusals, v.entries, v.credentials})
	v.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	h.look("what clients were told", seen)
	said("remove", m.run("credentials", "remove", "GEMINI_API_KEY"), 0)
	said("remove", m.run("credentials", "remove", "OPENAI_API_KEY"), 0)
	h.files(m.dir)
	m.stop()
	h.look("what the socket carried to a client", overheard())
	h.look("the service's log", []byte(m.logs.text()))
	h.files(m.dir)
	h.files(bus.Dir)
}
