package wire

import "time"

// Methods of credentials, for persons. Each answers with a CredentialListResult;
// no answer ever carries a secret, and a request_key is not kept.
const (
	MethodCredentialList   = "credential.list"
	MethodCredentialSet    = "credential.set"
	MethodCredentialRemove = "credential.remove"
	// MethodCredentialHand gives the service what its keychain would not: it
	// keeps it in memory until it ends.
	MethodCredentialHand = "credential.hand_over"
)

// EvCredentials, on TopicService, says that what the service needs of the
// keychain has changed; its data is a CredentialListResult.
const EvCredentials = "credentials.changed"

// Places where a secret lies.
const (
	InKeychain = "keychain"
	InFile     = "file"   // encrypted with a passphrase
	InMemory   = "memory" // handed over; gone with this service
)

// Credential is a secret by its name. Name is the environment variable of a
// provider that it fills, such as ANTHROPIC_API_KEY.
type Credential struct {
	Name      string    `json:"name"`
	Providers []string  `json:"providers"` // that know the variable
	In        string    `json:"in"`
	UpdatedAt time.Time `json:"updated_at"`
	// Ready: the service has it at hand. Otherwise work that needs it waits,
	// Problem says why, and Fix what mends it.
	Ready   bool   `json:"ready"`
	Problem string `json:"problem,omitempty"`
	Fix     string `json:"fix,omitempty"`
}

// Keychain is the state of the person's keychain as the service sees it.
type Keychain struct {
	State   string `json:"state"` // ready | absent | no_service | locked | refused | slow
	Message string `json:"message"`
	Fix     string `json:"fix"`
}

// CredentialListResult is every credential that is known by name.
type CredentialListResult struct {
	Credentials []Credential `json:"credentials"`
	Keychain    Keychain     `json:"keychain"`
	// Wanted names what live missions wait for.
	Wanted []string `json:"wanted"`
	// Note is what a person should know of the change that this answers.
	Note string `json:"note,omitempty"`
}

// CredentialSetParams stores a secret. In is InKeychain unless a person asked
// for InFile, with its passphrase.
type CredentialSetParams struct {
	Name       string `json:"name"`
	Secret     string `json:"secret"`
	In         string `json:"in,omitempty"`
	Passphrase string `json:"passphrase,omitempty"`
}

// CredentialRemoveParams forgets one everywhere.
type CredentialRemoveParams struct {
	Name string `json:"name"`
}

// CredentialHandParams hands secrets over, by name; Passphrase opens the
// encrypted file instead.
type CredentialHandParams struct {
	Secrets    map[string]string `json:"secrets,omitempty"`
	Passphrase string            `json:"passphrase,omitempty"`
}
