package demo

import "testing"

func TestOnlyThisComputerIsAsked(t *testing.T) {
	for endpoint, want := range map[string]bool{
		"http://127.0.0.1:8080": true, "http://localhost:1/base": true, "http://[::1]:9": true,
		"": false, "http://example.com": false, "http://127.0.0.1.example.com": false, "http://localhost.example.com": false,
		"http://127.0.0.1@example.com": false, "https://127.0.0.1": false, "http://10.0.0.1": false, "file:///etc/passwd": false, "http://0.0.0.0:80": false,
	} {
		if got := local(endpoint); got != want {
			t.Errorf("%q: %v", endpoint, got)
		}
	}
}
