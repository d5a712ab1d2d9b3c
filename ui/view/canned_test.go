package view

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/reevehq/reeve/app/approval"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/ui/model"
)

const commandText = "go test ./... -run 'TestLexer|TestPosition' -count=1 \\\n  && rm -rf build\u00a0cache\u200b/ \\\n  && echo \"ok \u202etxt.sh\" | tee result.txt  "

func usage(tokens int64, cost float64) wire.Usage {
	return wire.Usage{Semantics: "uncached", Input: ptr(tokens), CostUSD: ptr(cost)}
}

func live(id, title, phase, provider, name, folder string, minutes int, start time.Time, tokens int64, cost float64) wire.Mission {
	end := start.Add(time.Duration(minutes) * time.Minute)
	return wire.Mission{ID: id, Title: title, Scope: title, Phase: phase, Provider: provider, Model: name, Folder: folder, Minutes: minutes, CreatedAt: start,
		StartedAt: &start, DeadlineAt: &end, Usage: usage(tokens, cost), Session: "s-" + id, Turn: 1, Revision: 1, Unasked: []string{"reads"}}
}

func commandApproval(t *testing.T) wire.Approval {
	a := ask(t, "q-1", "m-parser", "Port parser to Go", "codex", "/home/me/code/parser", 4, approval.ToolCall,
		approval.Subject{Tool: "Bash", Command: commandText, Cwd: "/home/me/code/parser", Reason: "verify the lexer before continuing"}, clock(15, 5))
	a.ExpiresAt = clockPtr(15, 17)
	a.Offers = []wire.Offer{{Sentence: "exactly this command"}}
	return a
}

// plainApproval is of a command that a pattern can stand for.
func plainApproval(t *testing.T) wire.Approval {
	a := ask(t, "q-4", "m-retry", "Add retry to uploader", "claude", "/home/me/code/shop-api", 2, approval.ToolCall,
		approval.Subject{Tool: "Bash", Command: "npm test upload", Cwd: "/home/me/code/shop-api", Reason: "see whether the retry holds"}, clock(15, 5))
	a.ExpiresAt = clockPtr(15, 46)
	a.Offers = []wire.Offer{{Sentence: "exactly this command"},
		{Pattern: "npm test *", Sentence: "“npm test” with any further plain words: no options, no paths to outside, no other shell syntax"}}
	return a
}

func diffApproval(t *testing.T) wire.Approval {
	diff := "--- a/db/migrations/0042_ledger_backfill.go\n+++ b/db/migrations/0042_ledger_backfill.go\n@@ -18,6 +18,61 @@ func backfill(ctx context.Context, tx *sql.Tx) error\n" +
		" \tconst batch = 500\n-\trows, err := tx.Query(\"SELECT id FROM invoice\")\n+\trows, err := tx.QueryContext(ctx,\n+\t\t`SELECT id, total, 通貨 FROM invoice WHERE ledger_id IS NULL`)\n" +
		" \tif err != nil {\n-\t\treturn err\n+\t\treturn fmt.Errorf(\"invoices\u00a0to move: %w\", err)\n \t}\n" + strings.Repeat("+\tmoved++\n", 55) + " \treturn nil\n"
	a := ask(t, "q-2", "m-ledger", "Move invoices to the new ledger tables", "codex", "/home/me/northwind/billing-platform-monorepo", 7, approval.FileChange,
		approval.Subject{Tool: "Edit", Paths: []string{"/home/me/northwind/billing-platform-monorepo/db/migrations/0042_ledger_backfill.go"}, Diff: diff,
			Reason: "the ledger needs the currency of every open invoice"}, clock(15, 3))
	a.ExpiresAt = clockPtr(16, 11)
	a.Offers = []wire.Offer{{Sentence: "exactly this change"},
		{Pattern: "db/migrations/0042_ledger_backfill.go", Sentence: "any change to the file db/migrations/0042_ledger_backfill.go, its removal too"}}
	return a
}

func startApproval(t *testing.T) wire.Approval {
	return ask(t, "q-3", "m-new", "Split the settings page", "claude", "/home/me/code/shop-web", 0, approval.MissionStart,
		approval.Subject{Mission: &approval.MissionSubject{Provider: "claude", ProviderPath: "/usr/local/bin/claude", ProviderVersion: "2.0.31", Model: "sonnet",
			Folder: "/home/me/code/shop-web", Scope: "Split the settings page into Profile, Notifications and Billing, each with its own route. Keep every form's behaviour and its tests.",
			Minutes: 60, Unasked: []string{"reads"}, Instructions: "# Mission\n\nWork only on the scope.\n", Prompt: "Begin.\n", EnvNames: []string{"PATH", "HOME", "LANG"}}}, clock(15, 4))
}

// standing are rules of every kind.
func standing() []wire.Rule {
	const by = "reeve-desktop (pid 7)"
	rule := func(id, effect, reach, class, about, sentence string, uses int) wire.Rule {
		return wire.Rule{ID: id, Effect: effect, For: reach, Class: class, About: about, Sentence: sentence, Cwd: ".", By: by, CreatedAt: clock(14, 10+uses), Uses: uses,
			Project: "/home/me/code/shop-api"}
	}
	list := []wire.Rule{
		rule("r-1", "deny", "project", "execute", "git push *", "“git push” with any further plain words", 3),
		rule("r-2", "allow", "project", "execute", "npm test *", "“npm test” with any further plain words: no options, no paths to outside, no other shell syntax", 18),
		rule("r-3", "allow", "mission", "execute", "go vet ./... \\\n  && go build -o bui\u00a0ld/parser ./cmd/parser", "exactly this command", 2),
		rule("r-4", "allow", "mission", "edit", "docs/", "any change to any file in the folder docs/, removals too", 0),
		rule("r-5", "allow", "project", "mcp", "github create_issue *", "the tool create_issue of the MCP server github with any arguments", 1),
	}
	list[0].Pattern, list[1].Pattern, list[3].Pattern = "git push *", "npm test *", "docs/"
	list[2].Mission, list[2].Project, list[3].Mission, list[3].Project = "m-parser", "/home/me/code/parser", "m-gone", "/home/me/code/shop-web"
	list[4].By = "reeve (pid 812, pts/3)"
	for i := range list {
		if list[i].Uses > 0 {
			list[i].LastUsedAt = clockPtr(15, 4)
		}
	}
	return list
}

// busy fills the model with a working day.
func busy(t *testing.T, r *rig) {
	r.st.SetLink(model.Running, "")
	know(r, wire.TopicService, wire.Service{State: "running", Version: "1.0.0", Generation: 14, PID: 812, Socket: "/run/user/1000/reeve/reeve.sock", StateDir: "/home/me/.local/state/reeve", StartedAt: clock(8, 2), Live: 6, Pending: 2})
	parser := live("m-parser", "Port parser to Go", "working", "codex", "gpt-5", "/home/me/code/parser", 60, clock(14, 17), 212_000, 1.84)
	parser.Scope = "Port the TypeScript parser to Go, file by file. Keep the public names and the error positions. Leave the command line alone."
	parser.Turn, parser.ToolCalls, parser.Budget = 4, 52, wire.Budget{CostUSD: 5}
	parser.Unasked, parser.UnaskedUses = []string{"reads", "edits"}, map[string]int{"reads": 31}
	parser.Generation, parser.ProviderVersion = 14, "0.63.0"
	parser.Steering = []wire.Steering{{ID: 1, Text: "Keep error positions as byte offsets, not runes.", State: "applied", Turn: 4}, {ID: 2, Text: "Name the token kinds as the tests do.", State: "received"}}
	for i, n := range []int64{41_000, 61_000, 46_000, 64_000} {
		turn := wire.TurnInfo{ID: "t", Number: i + 1, StartedAt: clock(14, 17+12*i), EndedAt: clockPtr(14, 26+12*i), Tools: 12, Usage: usage(n, 0.4)}
		if i == 3 {
			turn.EndedAt = nil
		}
		parser.Turns = append(parser.Turns, turn)
	}
	retry := live("m-retry", "Add retry to uploader", "working", "claude", "opus", "/home/me/code/shop-api", 60, clock(14, 46), 96_000, 0.92)
	retry.Activity, retry.ToolCalls = &wire.Activity{Tool: "Edit", Detail: "packages/uploader/src/retry.ts", At: clock(15, 4)}, 18
	cjk := live("m-cjk", "請求書の日付をタイムゾーン対応にする", "working", "claude", "sonnet", "/home/me/code/seikyu-web", 120, clock(14, 53), 41_000, 0.31)
	cjk.Activity, cjk.ToolCalls = &wire.Activity{Tool: "Read", Detail: "src/請求/日付計算.ts", At: clock(15, 4)}, 7
	sweep := live("m-sweep", "Nightly dependency sweep", "waiting", "acp:opencode", "qwen-coder", "/home/me/code/infra", 240, clock(14, 7), 154_000, 0)
	sweep.NextTurnAt = clockPtr(15, 20)
	mails := live("m-mails", "Rewrite onboarding emails", "paused", "claude", "sonnet", "/home/me/code/mailer", 60, clock(14, 57), 30_000, 0.22)
	mails.Turn = 2
	ended := func(m wire.Mission, at time.Time, change func(*wire.Mission)) wire.Mission {
		m.EndedAt = &at
		change(&m)
		return m
	}
	know(r, wire.TopicMissions, parser,
		live("m-ledger", "Move invoices to the new ledger tables", "working", "codex", "gpt-5", "/home/me/northwind/billing-platform-monorepo", 120, clock(14, 11), 305_000, 2.40),
		retry, cjk, sweep, mails,
		ended(live("m-flaky", "Fix flaky date test", "completed", "claude", "opus", "/home/me/code/shop-api", 60, clock(13, 43), 58_000, 0.61), clock(14, 21), func(m *wire.Mission) { m.LastResult = "The test compares dates in UTC now; 40 runs passed." }),
		ended(live("m-client", "Generate API client", "startup_failed", "codex", "gpt-5", "/home/me/code/shop-api", 60, clock(13, 56), 3_000, 0.02), clock(13, 58), func(m *wire.Mission) {
			m.Failure = &wire.Failure{Message: "Codex is not signed in any more. Run codex login."}
		}),
		ended(live("m-react", "Upgrade React to 19", "stopped", "claude", "opus", "/home/me/code/shop-web", 120, clock(10, 30), 402_000, 3.18), clock(12, 30), func(m *wire.Mission) { m.EndReason = "deadline" }))
	know(r, wire.TopicApprovals, commandApproval(t), diffApproval(t))
	r.providers.list, r.providers.known = agents(), true
	r.hasTray, r.trayKnown = true, true
}

func agents() []wire.Provider {
	return []wire.Provider{
		{Name: "claude", Title: "Claude Code", Found: true, Version: "2.0.31", SignedIn: ptr(true)},
		{Name: "codex", Title: "Codex", Found: true, Version: "0.63.0", SignedIn: ptr(true)},
		{Name: "acp:opencode", Title: "opencode", Found: false, Problem: "opencode was not found.", Fix: "Install opencode and put it on the PATH."},
	}
}

// entries is the session of the parser mission.
func entries(t *testing.T) []wire.Entry {
	var out []wire.Entry
	add := func(h, m int, kind string, data any) {
		out = append(out, wire.Entry{Log: "l-1", Seq: uint64(len(out) + 1), At: clock(h, m), Kind: kind, Data: raw(t, data)})
	}
	for n := 1; n <= 3; n++ {
		id := string(rune('0' + n))
		add(14, 5+12*n, wire.KindTurnStarted, wire.TurnStarted{Turn: id, Number: n})
		for range 11 {
			add(14, 6+12*n, wire.KindToolStarted, wire.ToolStarted{Turn: id, Call: id, Tool: "Read", Kind: wire.ToolRead, Paths: []string{"/home/me/code/parser/x.ts"}})
			add(14, 6+12*n, wire.KindToolFinished, wire.ToolFinished{Turn: id, Call: id, Status: "ok", Seconds: 0.1})
		}
		add(14, 14+12*n, wire.KindTurnFinished, wire.TurnFinished{Turn: id, Outcome: "succeeded"})
	}
	add(14, 52, wire.KindTurnStarted, wire.TurnStarted{Turn: "4", Number: 4, Steering: []string{"Keep error positions as byte offsets, not runes."}})
	add(14, 52, wire.KindText, wire.Text{Turn: "4", Text: "I'll start with the lexer. The tests describe the token kinds, so I read those first and keep the public names unchanged; byte offsets stay as they are in the TypeScript version."})
	tool := func(m int, call, name, kind, object string, f wire.ToolFinished) {
		st := wire.ToolStarted{Turn: "4", Call: call, Tool: name, Kind: kind}
		if kind == wire.ToolExecute {
			st.Command = object
		} else {
			st.Paths = []string{"/home/me/code/parser/" + object}
		}
		h := 14
		add(h, m, wire.KindToolStarted, st)
		f.Turn, f.Call = "4", call
		add(h, m, wire.KindToolFinished, f)
	}
	tool(53, "a", "Read", wire.ToolRead, "parser/lexer.ts", wire.ToolFinished{Status: "ok", Seconds: 0.1})
	tool(53, "b", "Search", wire.ToolSearch, "TokenKind", wire.ToolFinished{Status: "ok", Seconds: 0.2})
	tool(55, "c", "Bash", wire.ToolExecute, "go vet ./...", wire.ToolFinished{Status: "failed", Seconds: 1.8, Exit: ptr(1), Output: "lexer.go:44:9: undefined: eof\n"})
	tool(58, "d", "Edit", wire.ToolEdit, "lexer.go", wire.ToolFinished{Status: "ok", Seconds: 0.1, Diff: "@@ -41,4 +41,6 @@ func (l *Lexer) next() rune\n \tif l.pos >= len(l.src) {\n-\t\treturn utf8.RuneError\n+\t\treturn eof // was RuneError: a real U+FFFD ended the file\n \t}\n+\tr, w := utf8.DecodeRuneInString(l.src[l.pos:])\n+\tl.pos, l.width = l.pos+w, w\n \treturn r\n"})
	add(15, 4, wire.KindText, wire.Text{Turn: "4", Text: "The lexer compiles. I want to run its tests before I go on to the parser."})
	add(15, 5, wire.KindPermissionAsked, wire.Permission{Turn: "4", Request: "q-1", Kind: "tool_call", Tool: "Bash", Subject: commandApproval(t).Subject})
	return out
}

// talk is the room of the parser mission.
func talk() wire.RoomMessagesResult {
	say := func(n int, from, name, kind, text string, h, m int) wire.RoomMessage {
		return wire.RoomMessage{ID: fmt.Sprintf("msg_%d", n), Room: "r-parser", Kind: kind, From: from, Name: name, Mission: "m-parser", Text: text, At: clock(h, m)}
	}
	list := []wire.RoomMessage{
		say(1, "reeve", "Reeve", wire.RoomNotice, "The mission began.", 14, 17),
		say(2, "agent", "Codex", wire.RoomIntent, "Port lexer.ts first, then parser.ts; the command line stays as it is.", 14, 20),
		say(3, "person", "", wire.RoomText, "Do error positions stay byte offsets? The editor plugin counts on that.", 14, 40),
		say(4, "agent", "Codex", wire.RoomAnswer, "Yes. Position.Offset is the byte offset in the source, as in the TypeScript version. I added a test with 通貨 in it, where runes and bytes differ.", 14, 44),
		say(5, "agent", "Codex", wire.RoomText, "parser.ts calls eval\u202e() in one place. I leave it out and note it in the README.", 14, 58),
		say(6, "person", "", wire.RoomText, "Leave it out, yes.", 15, 3),
	}
	list[3].Answers = "msg_3"
	return wire.RoomMessagesResult{Room: wire.Room{ID: "r-parser", Mission: "m-parser", Workers: []string{"m-parser"}, Last: "msg_6", Read: "msg_5", Count: 6}, Messages: list}
}

// journal is what the parser mission did beyond its checkout.
func journal(t *testing.T) []wire.Effect {
	one := func(id, tool, state, known string, input any, m int) wire.Effect {
		return wire.Effect{ID: id, Mission: "m-parser", Turn: "t", TurnNo: 4, Room: "r-parser", Tool: tool, Input: raw(t, input), Digest: "4f1c09ab", Mutation: true,
			State: state, CreatedAt: clock(14, m), Known: known, Revision: 1}
	}
	type text map[string]any
	settled := one("e-3", "publish_package", wire.EffectSettled, "Its worker was gone before it said how it ended.", text{"name": "parser", "tag": "next"}, 30)
	settled.Settled, settled.By, settled.TurnNo = wire.EffectDidNot, "reeve-desktop (pid 7)", 2
	done := one("e-1", "send_message", wire.EffectCompleted, "The service ran it; it happened once.", text{"text": "parser.ts calls eval\u202e() in one place. I leave it out and note it in the README."}, 58)
	done.Result = raw(t, text{"message_id": "msg_5"})
	return []wire.Effect{
		one("e-4", "create_issue", wire.EffectUncertain, "Its worker was gone before it said how it ended. It may have happened.",
			text{"repository": "me/parser", "title": "eval in parser.ts", "body": "parser.ts calls eval at line 212.\nIt is left out of the port.", "labels": []string{"port", "security"}, "assignee": "me", "draft": false}, 59),
		done,
		one("e-2", "record_intent", wire.EffectCompleted, "The service ran it; it happened once.", text{"text": "Port lexer.ts first, then parser.ts; the command line stays as it is."}, 20),
		one("e-5", "create_issue", wire.EffectFailed, "The tool said that it did not happen.", text{"title": "x"}, 25),
		settled,
		one("e-6", "join_room", wire.EffectExecuting, "Its worker is doing it.", text{"room_id": "r-retry"}, 59),
	}
}

// secrets are credentials in every state.
func secrets() wire.CredentialListResult {
	return wire.CredentialListResult{
		Credentials: []wire.Credential{
			{Name: "ANTHROPIC_API_KEY", Providers: []string{"claude", "acp:opencode"}, In: wire.InKeychain, UpdatedAt: clock(9, 12), Problem: "The keychain is locked.", Fix: "Unlock it with your desktop's passwords program."},
			{Name: "OPENAI_API_KEY", Providers: []string{"codex"}, In: wire.InMemory, UpdatedAt: clock(14, 2), Ready: true},
			{Name: "GEMINI_API_KEY", Providers: []string{"acp:gemini"}, In: wire.InFile, UpdatedAt: clock(14, 3), Problem: "The encrypted file is closed.", Fix: "Give its passphrase."},
		},
		Keychain: wire.Keychain{State: "locked", Message: "The keychain is locked, so that the service can't read it.", Fix: "Unlock it with your desktop's passwords program; Reeve goes on by itself."},
		Wanted:   []string{"ANTHROPIC_API_KEY"},
	}
}
