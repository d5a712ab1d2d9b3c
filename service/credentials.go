package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reevehq/reeve/app/mission"
	"github.com/reevehq/reeve/ipc/server"
	"github.com/reevehq/reeve/ipc/wire"
	"github.com/reevehq/reeve/service/internal/credential"
	"github.com/reevehq/reeve/service/internal/store"
	"github.com/reevehq/reeve/service/keychain"
)

// noKeychain stands in for a keychain that nobody gave to this service.
type noKeychain struct{}

var errNoKeychain = &keychain.Error{State: keychain.Absent, Message: "This service has no keychain.", Fix: "Keep secrets in the encrypted file."}

func (noKeychain) Get(context.Context, string) (string, error) { return "", errNoKeychain }
func (noKeychain) Set(context.Context, string, string) error   { return errNoKeychain }
func (noKeychain) Remove(context.Context, string) error        { return errNoKeychain }
func (noKeychain) State(context.Context) error                 { return errNoKeychain }

// openCredentials makes the broker. What changes there is told by
// tellCredentials.
func (s *Service) openCredentials() (err error) {
	var kc credential.Keeper = noKeychain{}
	if s.o.Keychain != nil {
		kc = s.o.Keychain
	}
	s.credentialsChanged = make(chan struct{}, 1)
	s.credentials, err = credential.Open(credential.Options{
		DB: s.db, Keychain: kc, File: s.path("secrets.age"), Now: func() time.Time { return s.o.Now().Wall },
		Changed: func() {
			select {
			case s.credentialsChanged <- struct{}{}:
			default: // it will be told all the same
			}
		},
	})
	return err
}

// tellCredentials announces what changed, until ctx ends.
func (s *Service) tellCredentials(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.credentialsChanged:
		}
		if list, err := s.CredentialList(ctx); err == nil {
			s.topics.service.Publish(wire.EvCredentials, list)
		}
	}
}

// CredentialList tells every credential by name, and whether it can be had now.
func (s *Service) CredentialList(ctx context.Context) (wire.CredentialListResult, error) {
	out := wire.CredentialListResult{Credentials: []wire.Credential{}, Keychain: keychainView(s.credentials.Keychain.State(ctx)), Wanted: []string{}}
	out.Wanted = append(out.Wanted, s.credentials.Wanted()...)
	list, err := s.providers()
	if err != nil {
		s.log.Warn("the file of agents can't be used", "err", err)
	}
	for _, e := range s.credentials.List() {
		c := wire.Credential{Name: e.Name, Providers: []string{}, In: string(e.In), UpdatedAt: e.UpdatedAt}
		for _, p := range list {
			if slices.Contains(p.Variables(), mission.Variable{Name: e.Name, Secret: true}) {
				c.Providers = append(c.Providers, p.Name())
			}
		}
		_, err := s.credentials.Get(ctx, e.Name)
		c.Ready = err == nil
		c.Problem, c.Fix = problem(err)
		out.Credentials = append(out.Credentials, c)
	}
	return out, ctx.Err()
}

func keychainView(err error) wire.Keychain {
	var e *keychain.Error
	switch {
	case err == nil:
		return wire.Keychain{State: string(keychain.Ready), Message: "The keychain can be used."}
	case errors.As(err, &e):
		return wire.Keychain{State: string(e.State), Message: e.Message, Fix: e.Fix}
	}
	return wire.Keychain{State: string(keychain.Slow), Message: "The keychain was not looked at."}
}

// problem says why a secret can't be had, and what to do.
func problem(err error) (message, fix string) {
	var k *keychain.Error
	var p *credential.Problem
	switch {
	case err == nil:
		return "", ""
	case errors.As(err, &k):
		return k.Message, k.Fix
	case errors.As(err, &p):
		return p.Message, p.Fix
	}
	return sentence(err), ""
}

func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// CredentialSet stores a secret for every later mission whose provider
// documents its variable.
func (s *Service) CredentialSet(ctx context.Context, a server.Actor, p wire.CredentialSetParams) (wire.CredentialListResult, error) {
	leave, err := s.enter()
	if err != nil {
		return wire.CredentialListResult{}, err
	}
	defer leave()
	if bad := secretVariable(p.Name); bad != nil {
		return wire.CredentialListResult{}, bad
	}
	in := credential.Keychain
	switch p.In {
	case "", wire.InKeychain:
	case wire.InFile:
		in = credential.File
	default:
		return wire.CredentialListResult{}, wire.InvalidField("in", "must be keychain or file")
	}
	err = s.credentials.Set(ctx, p.Name, p.Secret, in, p.Passphrase, func(tx *store.Tx) error {
		return tx.Audit(store.AuditEntry{Kind: store.AuditService, Actor: who(a).String(), Text: fmt.Sprintf("the credential %s was stored in the %s", p.Name, in)})
	})
	if err != nil {
		return wire.CredentialListResult{}, credentialRefusal(p.Name, err)
	}
	return s.CredentialList(ctx)
}

// CredentialRemove forgets a secret. Missions that were given it keep it.
func (s *Service) CredentialRemove(ctx context.Context, a server.Actor, p wire.CredentialRemoveParams) (wire.CredentialListResult, error) {
	leave, err := s.enter()
	if err != nil {
		return wire.CredentialListResult{}, err
	}
	defer leave()
	had, err := s.credentials.Remove(ctx, p.Name, func(tx *store.Tx) error {
		return tx.Audit(store.AuditEntry{Kind: store.AuditService, Actor: who(a).String(), Text: fmt.Sprintf("the credential %s was removed", p.Name)})
	})
	if err != nil {
		return wire.CredentialListResult{}, credentialRefusal(p.Name, err)
	}
	out, err := s.CredentialList(ctx)
	if !had {
		out.Note = "The keychain had no " + p.Name + " of this Reeve: it was removed there before, or is in another keychain. The passwords program of your desktop shows which there are."
	}
	return out, err
}

// CredentialHand takes what the service could not read by itself.
func (s *Service) CredentialHand(ctx context.Context, a server.Actor, p wire.CredentialHandParams) (wire.CredentialListResult, error) {
	leave, err := s.enter()
	if err != nil {
		return wire.CredentialListResult{}, err
	}
	defer leave()
	var names []string
	for name := range p.Secrets {
		if bad := secretVariable(name); bad != nil {
			return wire.CredentialListResult{}, bad
		}
		names = append(names, name)
	}
	slices.Sort(names)
	journal := func(what string) func() error {
		return func() error { return s.audit(ctx, fmt.Sprintf("%s by %s", what, who(a))) }
	}
	switch {
	case p.Passphrase != "" && len(names) > 0:
		return wire.CredentialListResult{}, wire.InvalidField("passphrase", "must not come with secrets")
	case p.Passphrase != "":
		err = s.credentials.Unlock(p.Passphrase, journal("the encrypted file of credentials was opened"))
	case len(names) == 0:
		return wire.CredentialListResult{}, wire.InvalidField("secrets", "is missing or empty")
	default:
		err = s.credentials.HandOver(p.Secrets, journal("credentials were handed over ("+strings.Join(names, ", ")+")"))
	}
	if err != nil {
		return wire.CredentialListResult{}, credentialRefusal(strings.Join(names, ", "), err)
	}
	return s.CredentialList(ctx)
}

// secretVariable refuses a name that no provider documents as a secret.
func secretVariable(name string) error {
	var known []string
	for _, p := range []string{"claude", "codex", "acp"} {
		for _, v := range mission.ProviderVariables(p) {
			if v.Secret {
				known = append(known, v.Name)
			}
		}
	}
	if slices.Contains(known, name) {
		return nil
	}
	slices.Sort(known)
	return wire.Errorf(wire.CodeInvalidParams, "No agent knows a secret variable by that name. Use one of %s.", strings.Join(slices.Compact(known), ", ")).
		With(map[string]string{"field": "name"})
}

// credentialRefusal turns what the broker answers into what clients are told. It
// holds no secret.
func credentialRefusal(name string, err error) error {
	field := func(field string) error {
		return wire.Errorf(wire.CodeInvalidParams, "%s", sentence(err)).With(map[string]string{"field": field})
	}
	var k *keychain.Error
	var p *credential.Problem
	switch {
	case errors.Is(err, credential.ErrUnknown):
		return wire.Errorf(wire.CodeNotFound, "There is no credential %s; run reeve credentials to see them.", name)
	case errors.Is(err, credential.ErrNoFile):
		return wire.Errorf(wire.CodeNotFound, "There is no encrypted file of credentials. Make one with reeve credentials set NAME --in file.")
	case errors.Is(err, credential.ErrFull):
		return wire.Errorf(wire.CodeLimitExceeded, "%s", sentence(err))
	case errors.Is(err, credential.ErrSize):
		return field("secret")
	case errors.Is(err, credential.ErrPassphrase), errors.Is(err, credential.ErrShort):
		return field("passphrase")
	case errors.As(err, &k) && k.State == keychain.TooLarge:
		return wire.Errorf(wire.CodeLimitExceeded, "%s", k.Error())
	case errors.As(err, &k):
		return wire.Errorf(wire.CodeUnavailable, "%s", k.Error()).With(map[string]string{"state": string(k.State)})
	case errors.As(err, &p):
		return wire.Errorf(wire.CodeUnavailable, "%s", p.Error())
	}
	return err
}

// credentialCheck is doctor's look at the keychain: without one, or with one
// that is locked, something is wrong only if secrets are in it.
func (s *Service) credentialCheck(ctx context.Context) wire.Check {
	k := keychainView(s.credentials.Keychain.State(ctx))
	in := 0
	for _, e := range s.credentials.List() {
		if e.In == credential.Keychain {
			in++
		}
	}
	c := wire.Check{Name: "keychain", OK: k.State == string(keychain.Ready) || in == 0, Message: k.Message, Fix: k.Fix}
	if in > 0 && !c.OK {
		c.Message += " " + count(in, "credential is", "credentials are") + " in it, and missions that need them wait."
	}
	return c
}
