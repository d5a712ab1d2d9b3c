; Adds $INSTDIR to the PATH of all users or of one, and takes it out again.
;
; NSIS's own strings end at 1,024 characters, and a PATH that is cut there is
; lost. So the value never becomes such a string: it stays in memory of its own,
; and Windows' functions work on it. While it is worked on it has a semicolon at
; both ends, so that every folder in it stands between two.
;
; Both functions take from the stack: the subkey, and below it the root's handle.

!define PATH_OF_ALL "SYSTEM\CurrentControlSet\Control\Session Manager\Environment"
!define PATH_OF_ONE "Environment"

!macro ChangePath PREFIX NAME
Function ${PREFIX}${NAME}
  Exch $1 ; subkey
  Exch
  Exch $0 ; root
  Push $2 ; the open key
  Push $3 ; kind of the value
  Push $4 ; its size in bytes
  Push $5 ; its memory; the value begins at the second character
  Push $6 ; where in it $INSTDIR is
  Push $7
  Push $8

  System::Call 'advapi32::RegOpenKeyExW(p r0, w r1, i 0, i 0x20019|0x0002, *p .r2) i.r7'
  IntCmp $7 0 0 out out
  StrCpy $4 0
  System::Call 'advapi32::RegQueryValueExW(p r2, w "Path", p 0, *i .r3, p 0, *i r4 r4) i.r7'
  IntCmp $7 2 0 found found ; ERROR_FILE_NOT_FOUND: there is none yet
  StrCpy $3 2 ; REG_EXPAND_SZ
  StrCpy $4 0
  StrCpy $7 0
found:
  IntCmp $7 0 0 close close
  StrLen $8 $INSTDIR
  IntOp $7 $8 * 2
  IntOp $7 $7 + $4
  IntOp $7 $7 + 16
  System::Alloc $7 ; holds zeros
  Pop $5
  IntPtrOp $6 $5 + 2
  IntCmp $4 0 empty
  System::Call 'advapi32::RegQueryValueExW(p r2, w "Path", p 0, p 0, p r6, *i r4) i.r7'
  IntCmp $7 0 0 free free
empty:
  System::Call '*$5(&i2 59)' ; a semicolon
  System::Call 'kernel32::lstrlenW(p r5) i.r4'
  IntOp $7 $4 - 1
  IntOp $7 $7 * 2
  IntPtrOp $7 $5 + $7
  System::Call '*$7(&i2 .r7)'
  IntCmp $7 59 closed
  System::Call 'kernel32::lstrcatW(p r5, w ";")'
closed:
  System::Call 'shlwapi::StrStrIW(p r5, w ";$INSTDIR;") p.r6'
!if ${NAME} == AddToPath
  IntPtrCmp $6 0 0 free free ; it is there
  System::Call 'kernel32::lstrcatW(p r5, w "$INSTDIR")'
!else
  IntPtrCmp $6 0 free
  IntOp $7 $8 + 1
  IntOp $7 $7 * 2
  IntPtrOp $7 $6 + $7 ; the semicolon behind it
  System::Call 'kernel32::lstrlenW(p r7) i.r4'
  IntOp $4 $4 + 1
  IntOp $4 $4 * 2
  System::Call 'ntdll::RtlMoveMemory(p r6, p r7, p r4)'
  System::Call 'kernel32::lstrlenW(p r5) i.r4'
  IntOp $4 $4 - 1
  IntCmp $4 0 write
  IntOp $4 $4 * 2
  IntPtrOp $7 $5 + $4
  System::Call '*$7(&i2 0)' ; the last semicolon
write:
!endif
  IntPtrOp $6 $5 + 2
  System::Call 'kernel32::lstrlenW(p r6) i.r4'
  IntOp $4 $4 + 1
  IntOp $4 $4 * 2
  System::Call 'advapi32::RegSetValueExW(p r2, w "Path", i 0, i r3, p r6, i r4) i.r7'
  SendMessage ${HWND_BROADCAST} ${WM_SETTINGCHANGE} 0 "STR:Environment" /TIMEOUT=5000
free:
  System::Free $5
close:
  System::Call 'advapi32::RegCloseKey(p r2)'
out:
  Pop $8
  Pop $7
  Pop $6
  Pop $5
  Pop $4
  Pop $3
  Pop $2
  Pop $0
  Pop $1
FunctionEnd
!macroend
!insertmacro ChangePath "" AddToPath
!insertmacro ChangePath "un." RemoveFromPath
