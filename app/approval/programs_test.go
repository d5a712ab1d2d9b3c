package approval_test

import (
	"strings"
	"testing"

	"github.com/reevehq/reeve/app/approval"
)

func TestPrograms(t *testing.T) {
	for command, want := range map[string]string{
		"go test ./... && rm -rf x | tee log":   "go then rm into tee",
		"git status":                            "git",
		"git status; curl x | sh":               "git then curl into sh",
		"git status $(x)":                       "git inside x",
		"git status `x`":                        "git inside x",
		"git  status\nmore":                     "git then more",
		"sleep 5 & rm x":                        "in the background sleep then rm",
		"rm x &":                                "in the background rm",
		"a || b":                                "a then b",
		"echo \"$(date; uname)\" > out":         "echo inside date inside uname",
		"X=$(curl u) make":                      "make inside curl",
		"X=$(curl u)":                           "inside curl",
		"diff <(a) >(b)":                        "diff inside a inside b",
		"if a; then b; else c; fi":              "a then b then c",
		"for i in $(ls); do rm $i; done":        "inside ls then rm",
		"while read l; do x; done < <(curl u)":  "read then x inside curl",
		"(cd a; make)":                          "cd then make",
		"{ a; b; } | c":                         "a then b into c",
		"case $x in y) rm z;; esac":             "rm",
		"git() { rm -rf /; }; git status":       "rm then git",
		"sudo -u root rm x":                     "sudo inside rm",
		"sudo -Eu root rm x":                    "sudo inside rm",
		"sudo --user=root -- rm x":              "sudo inside rm",
		"env A=1 B=$C rm x":                     "env inside rm",
		"env":                                   "env",
		"nohup nice -n 5 rm x":                  "nohup inside nice inside rm",
		"timeout -k 1 5 rm x":                   "timeout inside rm",
		"ls | xargs -I {} -n1 rm {}":            "ls into xargs inside rm",
		"time rm x":                             "rm",
		"command -v go":                         "command",
		"command rm x":                          "command inside rm",
		"find . -name '*.o' -exec rm {} \\;":    "find inside rm",
		"find . -exec a {} + -execdir b {} \\;": "find inside a inside b",
		"bash -c 'curl x | sh'":                 "bash inside curl into sh",
		"bash -o pipefail -ec 'rm x; ls'":       "bash inside rm then ls",
		"sh -c \"sh -c 'rm x'\"":                "sh inside sh inside rm",
		"bash script.sh -c x":                   "bash",
		"eval rm -rf x":                         "eval inside rm",
		"/usr/bin/sudo rm":                      "/usr/bin/sudo inside rm",
		"'r'\"m\" x":                            "rm",
		"r\\m x":                                "rm",
		"[ -f x ] && y":                         "[ then y",
		"[[ -n $(x) ]] && y":                    "inside x then y",
		"cat <<EOF | sh\n$(rm x)\nEOF":          "cat inside rm into sh",
		"cat <<'EOF'\n$(rm x)\nEOF":             "cat",
		"echo ${x:-$(rm y)} $((1+$(z)))":        "echo inside rm inside z",
		"! rm x":                                "rm",
		"# only a comment":                      "",
		"":                                      "",
		"a |& b":                                "a into b",
		"echo a\\\n; rm b":                      "echo then rm",
	} {
		got := approval.Programs(command)
		if got.String() != want || got.Unclear != "" {
			t.Errorf("%q runs %q (%s), want %q", command, got, got.Unclear, want)
		}
	}
}

func TestUnclearIsSaid(t *testing.T) {
	for _, command := range []string{
		"$CMD x", "$(which rm) x", "/bin/r? x", "{rm,-rf,x}", "~$x/rm", "$'\\x72m' x", "echo 'open", "if x", "))",
		"bash -c \"$X\"", "bash $X", "eval \"$X\"", "xargs $X", "sudo $X", "env -S 'rm x'", "sudo -e x", "find . -exec $X {} +",
		"PATH=./bin git status", "export PATH=.; git status", "env PATH=. git status", "LD_PRELOAD=./x.so git status",
		strings.Repeat("(", 100_000), strings.Repeat("$(", 10_000) + "x", strings.Repeat("a;", 100_000),
		"sh -c 'sh -c \"sh -c \\\"sh -c \\\\\\\"sh -c x\\\\\\\"\\\"\"'",
	} {
		if got := approval.Programs(command); got.Unclear == "" {
			t.Errorf("%.60q is said to be clear: %v", command, got)
		}
	}
}

func TestRedirects(t *testing.T) {
	got := approval.Programs("a >out.txt 2>&1 </etc/passwd; bash -c 'b >> \"$HOME/x\"'; echo $(c > d)")
	want := []string{">out.txt", "2>&1", "</etc/passwd", ">> \"$HOME/x\"", "> d"}
	if strings.Join(got.Redirects, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q", got.Redirects, want)
	}
}

func FuzzPrograms(f *testing.F) {
	for _, s := range []string{"", "a && b | c", "bash -c 'a $(b)'", "cat <<E\nx\nE", "sudo -u", "find -exec", "a &", "eval ''", "sh -c", "timeout", "sh -c -- x", "bash -c ''"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := approval.Programs(s)
		for _, p := range got.Programs {
			if p.Program == "" {
				t.Errorf("%q: a program without a name", s)
			}
		}
	})
}
