package model

import "testing"

func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"請求書 é\n\tx":                   "請求書 é\n\tx",
		"⚠\ufe0f done ✔\ufe0e ℹ\ufe0f": "⚠\ufe0f done ✔\ufe0e ℹ\ufe0f",
		"👩\u200d💻":                     "👩\u200d💻",
		"a\x1b[2Jb":                    "a‹U+001B›[2Jb",
		"a\u202eb\u2028":               "a‹U+202E›b‹U+2028›",
		"a\u3164b\u115f\u1160\uffa0":   "a‹U+3164›b‹U+115F›‹U+1160›‹U+FFA0›",
		"a\u2800":                      "a‹U+2800›",
		"a\ufe0fb⚠\ufe0f\ufe0f":        "a‹U+FE0F›b⚠\ufe0f‹U+FE0F›",
		"\ufe0f\U000e0101\u180b":       "‹U+FE0F›‹U+E0101›‹U+180B›",
		"a\u034f\u17b4":                "a‹U+034F›‹U+17B4›",
		"a\xffb":                       "a\ufffdb",
	} {
		if got := Clean(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
