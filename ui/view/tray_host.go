package view

import "runtime"

// sessionBusTray tells whether tray icons live on the session bus.
const sessionBusTray = runtime.GOOS != "windows" && runtime.GOOS != "darwin"
