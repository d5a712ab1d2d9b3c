package proc

// startsForOthers says whether p starts programs for whoever asks. It goes by
// the name that a process gives itself, since the programs of root can't be
// read: p is an ancestor from before the first worker or one that is judged
// itself, so it has no reason to hide.
func startsForOthers(p Info) asker {
	switch p.Comm {
	case "systemd":
		if p.PID != 1 {
			return userManager
		}
	case "dbus-daemon", "dbus-broker", "dbus-broker-lau",
		"cron", "crond", "anacron", "fcron", "atd",
		"tmux: server", "screen", "SCREEN", "zellij",
		"sshd", "sshd-session",
		"containerd-shim", "conmon":
		return anybody
	}
	// 0 is outside this pid namespace, from where people enter with a terminal.
	// The first process of a container may be a person's shell.
	if p.PID == 0 || p.PID == 1 && p.TTY == "" {
		return anybody
	}
	return nobody
}
