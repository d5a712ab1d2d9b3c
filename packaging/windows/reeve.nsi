; The installer for Windows, for all users or for one. packages.sh defines
; VERSION, IN (the folder with the files), OUT, and SIGN where a certificate is.
;
;   setup.exe /S /AllUsers | /CurrentUser [/D=C:\folder]    without questions
;
; It starts nothing, as with admin rights what it starts would have them as well.
; An upgrade ends nothing: services and missions go on with the program that they
; were started from, and the desktop starts itself anew when the service is of
; another version. A user registers their own service with `reeve service install`.

Target amd64-unicode
Unicode true
SetCompressor /SOLID lzma
Name "Reeve"
OutFile "${OUT}"
VIProductVersion "${VERSION}.0"
VIAddVersionKey ProductName "Reeve"
VIAddVersionKey ProductVersion "${VERSION}"
VIAddVersionKey FileVersion "${VERSION}"
VIAddVersionKey FileDescription "Reeve Setup"
VIAddVersionKey LegalCopyright "The Reeve authors"
!ifdef SIGN
  !finalize '${SIGN} "%1"'
  !uninstfinalize '${SIGN} "%1"'
!endif

!define UNINSTALL "Software\Microsoft\Windows\CurrentVersion\Uninstall\Reeve"
!define RUN "Software\Microsoft\Windows\CurrentVersion\Run"

!define MULTIUSER_EXECUTIONLEVEL Highest
!define MULTIUSER_MUI
!define MULTIUSER_INSTALLMODE_COMMANDLINE
!define MULTIUSER_USE_PROGRAMFILES64
!define MULTIUSER_INSTALLMODE_INSTDIR "Reeve"
!define MULTIUSER_INSTALLMODE_INSTDIR_REGISTRY_KEY "${UNINSTALL}"
!define MULTIUSER_INSTALLMODE_INSTDIR_REGISTRY_VALUENAME "InstallLocation"
!define MULTIUSER_INSTALLMODE_DEFAULT_REGISTRY_KEY "${UNINSTALL}"
!define MULTIUSER_INSTALLMODE_DEFAULT_REGISTRY_VALUENAME "InstallLocation"
!include MultiUser.nsh
!include MUI2.nsh
!include WinMessages.nsh
!include path.nsh

!define MUI_ICON "${IN}/reeve.ico"
!define MUI_UNICON "${IN}/reeve.ico"
!define MUI_FINISHPAGE_TITLE "Reeve is installed"
!define MUI_FINISHPAGE_TEXT "In a new terminal, `reeve service install` registers the background service for you. A service that runs already goes on with the program from before until you run `reeve service restart`."
!define MUI_FINISHPAGE_RUN "$INSTDIR\reeve-desktop.exe"
!define MUI_FINISHPAGE_RUN_NOTCHECKED
!insertmacro MULTIUSER_PAGE_INSTALLMODE
!insertmacro MUI_PAGE_DIRECTORY
!insertmacro MUI_PAGE_INSTFILES
!insertmacro MUI_PAGE_FINISH
!insertmacro MUI_UNPAGE_CONFIRM
!insertmacro MUI_UNPAGE_INSTFILES
!insertmacro MUI_LANGUAGE English

Function .onInit
  SetRegView 64
  !insertmacro MULTIUSER_INIT
FunctionEnd

Function un.onInit
  SetRegView 64
  !insertmacro MULTIUSER_UNINIT
FunctionEnd

; Aside makes room for a file that may be a program that runs: Windows does not
; let go of its content, but of its name.
!macro Aside NAME
  Delete "$INSTDIR\${NAME}.old*"
  ClearErrors
  Delete "$INSTDIR\${NAME}"
  ${If} ${Errors}
    System::Call 'kernel32::GetTickCount() i.r0'
    Rename "$INSTDIR\${NAME}" "$INSTDIR\${NAME}.old$0"
    Delete /REBOOTOK "$INSTDIR\${NAME}.old$0"
  ${EndIf}
!macroend

; PerMode runs one of two lines, for all users or for one.
!macro PerMode ALL ONE
  ${If} $MultiUser.InstallMode == AllUsers
    ${ALL}
  ${Else}
    ${ONE}
  ${EndIf}
!macroend

Section
  SetOutPath "$INSTDIR"
  !insertmacro Aside reeve.exe
  !insertmacro Aside reeve-desktop.exe
  File "${IN}/reeve.exe"
!if /FileExists "${IN}/reeve-desktop.exe"
  File "${IN}/reeve-desktop.exe"
!endif
  File "${IN}/reeve.ico"
  File "${IN}/reeve.ps1"
  File "${IN}/LICENCES.txt"
  ${IfNot} ${FileExists} "$INSTDIR\reeve.exe"
    SetErrorLevel 2
    Abort "reeve.exe could not be written to $INSTDIR."
  ${EndIf}
  WriteUninstaller "$INSTDIR\uninstall.exe"

  WriteRegStr SHCTX "${UNINSTALL}" DisplayName "Reeve"
  WriteRegStr SHCTX "${UNINSTALL}" DisplayVersion "${VERSION}"
  WriteRegStr SHCTX "${UNINSTALL}" Publisher "The Reeve authors"
  WriteRegStr SHCTX "${UNINSTALL}" DisplayIcon "$INSTDIR\reeve.ico"
  WriteRegStr SHCTX "${UNINSTALL}" InstallLocation "$INSTDIR"
  WriteRegStr SHCTX "${UNINSTALL}" UninstallString '"$INSTDIR\uninstall.exe" /$MultiUser.InstallMode'
  WriteRegStr SHCTX "${UNINSTALL}" QuietUninstallString '"$INSTDIR\uninstall.exe" /$MultiUser.InstallMode /S'
  WriteRegDWORD SHCTX "${UNINSTALL}" NoModify 1
  WriteRegDWORD SHCTX "${UNINSTALL}" NoRepair 1
  ${If} ${FileExists} "$INSTDIR\reeve-desktop.exe"
    WriteRegStr SHCTX "${RUN}" "Reeve Desktop" '"$INSTDIR\reeve-desktop.exe" -hidden'
    CreateShortcut "$SMPROGRAMS\Reeve.lnk" "$INSTDIR\reeve-desktop.exe" "" "$INSTDIR\reeve.ico"
  ${EndIf}
  !insertmacro PerMode 'Push 0x80000002' 'Push 0x80000001'
  !insertmacro PerMode 'Push "${PATH_OF_ALL}"' 'Push "${PATH_OF_ONE}"'
  Call AddToPath
SectionEnd

Section Uninstall
  ; Only the user whose service it is can end or keep what it does.
  ReadRegStr $0 HKCU "Software\Reeve\Service" "Exe"
  ${If} ${FileExists} "$INSTDIR\reeve.exe"
  ${AndIf} $0 == "$INSTDIR\reeve.exe"
    nsExec::ExecToLog '"$INSTDIR\reeve.exe" service uninstall'
    Pop $0
    ${If} $0 != 0
      MessageBox MB_OK|MB_ICONSTOP "Your Reeve service is still there, perhaps with missions that run. Run `reeve service uninstall` in a terminal; it says what to do. Nothing was removed." /SD IDOK
      SetErrorLevel 2
      Abort
    ${EndIf}
  ${EndIf}
  ; Ends the desktop, and for all users the launcher of their services. Services
  ; and missions of others go on until these log off.
  ${If} ${FileExists} "$INSTDIR\reeve.exe"
    nsExec::ExecToLog '"$INSTDIR\reeve.exe" service launch --remove'
    Pop $0
  ${EndIf}
  !insertmacro Aside reeve.exe
  !insertmacro Aside reeve-desktop.exe
  Delete "$INSTDIR\reeve.ico"
  Delete "$INSTDIR\reeve.ps1"
  Delete "$INSTDIR\LICENCES.txt"
  Delete "$INSTDIR\uninstall.exe"
  Delete "$SMPROGRAMS\Reeve.lnk"
  DeleteRegValue SHCTX "${RUN}" "Reeve Desktop"
  DeleteRegKey SHCTX "${UNINSTALL}"
  !insertmacro PerMode 'Push 0x80000002' 'Push 0x80000001'
  !insertmacro PerMode 'Push "${PATH_OF_ALL}"' 'Push "${PATH_OF_ONE}"'
  Call un.RemoveFromPath
  RMDir /REBOOTOK "$INSTDIR"
SectionEnd
